// What all sub-commands share: `--output text|json`, refusals, sizes for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/config/serve_config.h"

namespace paceline {

struct OutputArgs {
  bool json = false;
  std::vector<std::string> rest;  // the arguments without --output
};

StatusOr<OutputArgs> TakeOutputFlag(const std::vector<std::string>& args);

// Takes `--name value` or `--name=value` out of `args`; empty when it is not there.
StatusOr<std::string> TakeFlag(std::vector<std::string>& args, std::string_view name);

// The configuration from arguments, environment and file.
StatusOr<ServeConfig> ReadServeConfig(const std::vector<std::string>& args);

// "paceline plan: MESSAGE" on standard error; answers the exit code for it.
int PrintRefusal(std::string_view program, const Status& status);

std::string HumanBytes(uint64_t bytes);  // "92.1 MiB"

}  // namespace paceline
