// Layers: where each value of the configuration comes from. Command line > environment > file > default.
//
//   ASSIGN_OR_RETURN(Settings settings, ReadSettings({.args = args, .environment = env}));
//   settings.Find("port")->origin  ->  "environment PACELINE_PORT"
//
// Errors are InvalidArgument and name the flag, what was found and the nearest known name or the flag to use;
// the programs exit 78 on them. An option is honoured or refused, never dropped in silence.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace paceline {

struct Setting {
  nlohmann::json value;  // bool, integer, double, string, array of strings, or object, by the flag's kind
  std::string origin;    // "command line", "environment PACELINE_X", "file.yaml:12"
};

class Settings {
 public:
  // nullptr: not set, the default holds. `name` with dashes.
  const Setting* Find(std::string_view name) const;
  void Set(std::string_view name, Setting setting) { values_[std::string(name)] = std::move(setting); }

  bool GetBool(std::string_view name, bool fallback) const;
  int64_t GetInt(std::string_view name, int64_t fallback) const;
  double GetDouble(std::string_view name, double fallback) const;
  std::string GetString(std::string_view name, std::string_view fallback) const;
  std::vector<std::string> GetList(std::string_view name) const;

  const std::map<std::string, Setting, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, Setting, std::less<>> values_;
};

struct SettingsInput {
  std::vector<std::string> args;         // without the program and the sub-command
  std::vector<std::string> environment;  // "NAME=value"
};

struct ParsedSettings {
  Settings settings;
  std::vector<std::string> positional;  // MODEL
  std::vector<std::string> warnings;    // e.g. VLLM_* variables that are not read
  bool help = false;
};

// Reads all layers; the file is `--config` or PACELINE_CONFIG. `short_aliases` are -tp, -pp, -q.
StatusOr<ParsedSettings> ReadSettings(const SettingsInput& input);

// The process' environment as "NAME=value".
std::vector<std::string> ProcessEnvironment();

}  // namespace paceline
