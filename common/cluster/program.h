// The first lines of each program's main: --help, --version, the configuration, the log, exit codes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/config/serve_config.h"

namespace paceline {

// Reads command line, environment and file, starts the log with `entity(config)`, prints where each value
// came from and runs `body`. Answers the exit code: 78 when the configuration is refused. `args`: the command
// line without the program's name.
int RunProgram(const std::vector<std::string>& args, std::string_view name,
               const std::function<std::string(const ServeConfig&)>& entity,
               const std::function<int(const ServeConfig&)>& body);

// Logs why the program does not start and answers the exit code that says whether a restart is useful.
int RefuseStart(const Status& status);

}  // namespace paceline
