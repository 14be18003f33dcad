#include "common/cluster/program.h"

#include <unistd.h>

#include <cstdio>

#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/protocol/membership.h"

namespace paceline {
namespace {

void PrintHelp(std::string_view name) {
  fmt::print("{} MODEL [flags]\n\nFlags (also as environment variables and YAML keys, --config FILE):\n{}",
             name, FlagHelp());
}

}  // namespace

int RefuseStart(const Status& status) {
  const ExitCode code = ExitCodeOfStartError(status);
  LogError("start_refused", "exit_code={} reason=\"{}\"", static_cast<int>(code), Message(status));
  return code;
}

int RunProgram(const std::vector<std::string>& args, std::string_view name,
               const std::function<std::string(const ServeConfig&)>& entity,
               const std::function<int(const ServeConfig&)>& body) {
  const SettingsInput input{args, ProcessEnvironment()};
  if (input.args.size() == 1 && input.args[0] == "--version") {
    fmt::print("{} {} build {} protocol {}.{}\n", name, kPacelineVersion, kBuildId, kProtocolMajor,
               kProtocolMinor);
    return kExitOk;
  }
  StatusOr<ParsedSettings> parsed = ReadSettings(input);
  if (parsed.ok() && parsed->help) {
    PrintHelp(name);
    return kExitOk;
  }
  StatusOr<ServeConfig> config =
      parsed.ok() ? MakeServeConfig(*parsed) : StatusOr<ServeConfig>(parsed.status());
  if (!config.ok()) {
    fmt::print(stderr, "{}: {}\n", name, Message(config.status()));
    return kExitConfig;
  }
  InitLog(entity(*config), config->log_format, config->log_level);
  for (const std::string& warning : parsed->warnings) LogWarn("configuration", "{}", warning);
  LogDebug("configuration", "\n{}", DescribeOrigins(parsed->settings));
  const int exit_code = body(*config);
  // The last process of a host to end removes the directory; until then it is not empty.
  if (!config->runtime_dir.empty()) ::rmdir(config->runtime_dir.c_str());
  return exit_code;
}

}  // namespace paceline
