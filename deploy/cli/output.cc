#include "deploy/cli/output.h"

#include <array>

#include "common/base/exit_code.h"
#include "common/config/layers.h"

namespace paceline {

StatusOr<std::string> TakeFlag(std::vector<std::string>& args, std::string_view name) {
  const std::string flag = fmt::format("--{}", name);
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].starts_with(flag + "=")) {
      std::string value = args[i].substr(flag.size() + 1);
      args.erase(args.begin() + static_cast<ptrdiff_t>(i));
      return value;
    }
    if (args[i] != flag) continue;
    if (i + 1 == args.size()) return InvalidArgumentError("{} wants a value", flag);
    std::string value = args[i + 1];
    args.erase(args.begin() + static_cast<ptrdiff_t>(i), args.begin() + static_cast<ptrdiff_t>(i) + 2);
    return value;
  }
  return std::string();
}

StatusOr<OutputArgs> TakeOutputFlag(const std::vector<std::string>& args) {
  OutputArgs out;
  out.rest = args;
  ASSIGN_OR_RETURN(const std::string output, TakeFlag(out.rest, "output"));
  if (!output.empty() && output != "text" && output != "json") {
    return InvalidArgumentError("--output: want text or json, found '{}'", output);
  }
  out.json = output == "json";
  return out;
}

StatusOr<ServeConfig> ReadServeConfig(const std::vector<std::string>& args) {
  ASSIGN_OR_RETURN(const ParsedSettings parsed, ReadSettings({args, ProcessEnvironment()}));
  return MakeServeConfig(parsed);
}

int PrintRefusal(std::string_view program, const Status& status) {
  fmt::print(stderr, "{}: {}\n", program, Message(status));
  return ExitCodeOfStartError(status);
}

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace paceline
