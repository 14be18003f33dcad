// `paceline chat`: talk to a server (`--url`) or to a model that is started in place (`paceline chat MODEL
// [flags]`).
//
// ctrl-C stops the answer, not the program; ctrl-D ends it. `--prompt TEXT` asks once and ends, for scripts.
#pragma once

#include <string>
#include <vector>

namespace paceline {

int ChatCommand(const std::vector<std::string>& args);

}  // namespace paceline
