#include "common/config/layers.h"

#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "common/config/flags.h"

namespace paceline {
namespace {

using nlohmann::json;

std::string Dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

Status UnknownName(std::string_view what, std::string_view name) {
  if (const auto hint = ForeignFlagHint(name); !hint.empty()) {
    return InvalidArgumentError("unknown {} '{}': use {}", what, name, hint);
  }
  if (const auto nearest = NearestFlag(name); !nearest.empty()) {
    return InvalidArgumentError("unknown {} '{}': did you mean --{}?", what, name, nearest);
  }
  return InvalidArgumentError("unknown {} '{}'; `paceline serve --help` lists all", what, name);
}

StatusOr<json> ParseBool(std::string_view text) {
  if (text == "true" || text == "1") return json(true);
  if (text == "false" || text == "0") return json(false);
  return InvalidArgumentError("want true or false, found '{}'", text);
}

StatusOr<json> ParseFloat(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgumentError("want a number, found '{}'", text);
  }
  return json(value);
}

StatusOr<json> ParseJson(std::string_view text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded() || !value.is_object()) {
    return InvalidArgumentError("want a JSON object, found '{}'", text);
  }
  return value;
}

StatusOr<json> SplitList(std::string_view text) {
  json list = json::array();
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) list.push_back(std::string(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return list;
}

StatusOr<json> ParseValue(const FlagSpec& flag, std::string_view text) {
  switch (flag.kind) {
    case FlagKind::kBool:
      return ParseBool(text);
    case FlagKind::kInt:
    case FlagKind::kSize: {
      if (flag.name == "max-model-len" && text == "auto") return json(-1);
      ASSIGN_OR_RETURN(const int64_t value, ParseSize(text));
      return json(value);
    }
    case FlagKind::kFloat:
      return ParseFloat(text);
    case FlagKind::kString:
      return json(std::string(text));
    case FlagKind::kList:
      return SplitList(text);
    case FlagKind::kJson:
      return ParseJson(text);
  }
  return InternalError("flag kind");
}

Status CheckNotRefused(const FlagSpec& flag) {
  if (flag.refused.empty()) return OkStatus();
  return InvalidArgumentError("--{} is refused: {}", flag.name, flag.refused);
}

// The value at a dotted path of a JSON flag; numbers, true, false and null are read as such, all else is a
// string.
json DottedLeaf(std::string_view text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? json(std::string(text)) : value;
}

// Sets `path` ("method", "a.b", "list+") of object `root`.
Status SetDotted(json& root, std::string_view path, std::string_view text) {
  json* node = &root;
  while (true) {
    const size_t dot = path.find('.');
    std::string key(path.substr(0, dot));
    const bool append = dot == std::string_view::npos && key.ends_with('+');
    if (append) key.pop_back();
    if (key.empty()) return InvalidArgumentError("an empty key in a dotted name");
    json& child = (*node)[key];
    if (dot == std::string_view::npos) {
      if (append)
        child.push_back(DottedLeaf(text));
      else
        child = DottedLeaf(text);
      return OkStatus();
    }
    if (child.is_null()) child = json::object();
    if (!child.is_object()) return InvalidArgumentError("key '{}' is not an object", key);
    node = &child;
    path.remove_prefix(dot + 1);
  }
}

// --- environment ---

bool InjectedByKubernetes(std::string_view name, std::string_view value) {
  return name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != std::string_view::npos ||
         name.find("_PORT_") != std::string_view::npos || value.starts_with("tcp://");
}

// Variables that are not flags but ours.
bool IsReservedEnv(std::string_view name) {
  return name == "PACELINE_CONFIG" || name == "PACELINE_SHARED" || name == "PACELINE_SOURCE_DIR" ||
         name == "PACELINE_TEST_MODEL" || name == "PACELINE_PYTHON";
}

Status ReadEnvironment(const std::vector<std::string>& environment, ParsedSettings& out) {
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    const std::string value = entry.substr(equals + 1);
    if (name.starts_with("VLLM_")) {
      std::string twin = "PACELINE_" + name.substr(5);
      out.warnings.push_back(fmt::format("{} is not read; its twin, if there is one, is {}", name, twin));
      continue;
    }
    if (!name.starts_with("PACELINE_") || IsReservedEnv(name)) continue;
    std::string flag_name = name.substr(9);
    std::transform(flag_name.begin(), flag_name.end(), flag_name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    const FlagSpec* flag = FindFlag(flag_name);
    if (InjectedByKubernetes(name, value)) {
      return InvalidArgumentError(
          "{}={} looks like a variable that Kubernetes injects for a Service: set enableServiceLinks: false "
          "in the pod",
          name, value);
    }
    if (flag == nullptr) return Annotate(UnknownName("variable", flag_name), name);
    RETURN_IF_ERROR(Annotate(CheckNotRefused(*flag), name));
    StatusOr<json> parsed = ParseValue(*flag, value);
    if (!parsed.ok()) return Annotate(parsed.status(), name);
    out.settings.Set(flag->name, {*std::move(parsed), "environment " + name});
  }
  return OkStatus();
}

// --- YAML ---

StatusOr<json> YamlToJson(const YAML::Node& node) {
  if (node.IsMap()) {
    json out = json::object();
    for (const auto& pair : node) {
      const std::string key = pair.first.as<std::string>();
      if (out.contains(key))
        return InvalidArgumentError("line {}: key '{}' is repeated", pair.first.Mark().line + 1, key);
      ASSIGN_OR_RETURN(out[key], YamlToJson(pair.second));
    }
    return out;
  }
  if (node.IsSequence()) {
    json out = json::array();
    for (const auto& item : node) {
      ASSIGN_OR_RETURN(json value, YamlToJson(item));
      out.push_back(std::move(value));
    }
    return out;
  }
  if (node.IsNull()) return json(nullptr);
  const std::string text = node.as<std::string>();
  // A quoted scalar is a string ("!" is its tag); a plain one is read as JSON would.
  return node.Tag() == "!" ? json(text) : DottedLeaf(text);
}

StatusOr<json> YamlValue(const FlagSpec& flag, const YAML::Node& node) {
  if (flag.kind == FlagKind::kJson) {
    if (!node.IsMap()) return InvalidArgumentError("want a mapping");
    return YamlToJson(node);
  }
  if (flag.kind == FlagKind::kList && node.IsSequence()) return YamlToJson(node);
  if (!node.IsScalar()) return InvalidArgumentError("want a plain value");
  const std::string text = node.as<std::string>();
  if (flag.kind == FlagKind::kBool && text != "true" && text != "false") {
    return InvalidArgumentError("want true or false, found '{}'", text);
  }
  return ParseValue(flag, text);
}

Status ReadYamlNode(const YAML::Node& root, const std::string& path, ParsedSettings& out) {
  if (!root.IsMap()) return InvalidArgumentError("{}: want a mapping of flags", path);
  std::set<std::string> seen;
  for (const auto& pair : root) {
    const std::string key = Dashed(pair.first.as<std::string>());
    const std::string where = fmt::format("{}:{}", path, pair.first.Mark().line + 1);
    if (!seen.insert(key).second) return InvalidArgumentError("{}: key '{}' is repeated", where, key);
    const FlagSpec* flag = FindFlag(key);
    if (flag == nullptr) return Annotate(UnknownName("key", key), where);
    RETURN_IF_ERROR(Annotate(CheckNotRefused(*flag), where));
    StatusOr<json> value = YamlValue(*flag, pair.second);
    if (!value.ok()) return Annotate(value.status(), fmt::format("{}: {}", where, key));
    out.settings.Set(flag->name, {*std::move(value), where});
  }
  return OkStatus();
}

Status ReadYaml(const std::string& path, ParsedSettings& out) {
  try {
    const YAML::Node root = YAML::LoadFile(path);
    return root.IsNull() ? OkStatus() : ReadYamlNode(root, path, out);
  } catch (const YAML::BadFile&) {
    return NotFoundError("--config: no file '{}'", path);
  } catch (const YAML::Exception& e) {
    return InvalidArgumentError("{}:{}: {}", path, e.mark.line + 1, e.msg);
  }
}

// --- command line ---

class ArgReader {
 public:
  ArgReader(const std::vector<std::string>& args, ParsedSettings& out) : args_(args), out_(out) {}

  Status Read() {
    for (; index_ < args_.size(); ++index_) {
      const std::string& arg = args_[index_];
      if (arg == "--help" || arg == "-h")
        out_.help = true;
      else if (arg == "-tp" || arg == "-pp" || arg == "-q" || arg == "-dp")
        RETURN_IF_ERROR(ReadShort(arg));
      else if (arg.starts_with("--") && arg.size() > 2)
        RETURN_IF_ERROR(ReadLong(arg));
      else if (arg.starts_with("-") && arg.size() > 1)
        return UnknownName("flag", std::string_view(arg).substr(1));
      else
        out_.positional.push_back(arg);
    }
    return OkStatus();
  }

 private:
  static constexpr std::string_view kOrigin = "command line";

  StatusOr<std::string> NextValue(std::string_view name) {
    if (index_ + 1 >= args_.size()) return InvalidArgumentError("--{} wants a value", name);
    return args_[++index_];
  }

  Status ReadShort(const std::string& arg) {
    const std::string_view name = arg == "-tp"   ? "tensor-parallel-size"
                                  : arg == "-pp" ? "pipeline-parallel-size"
                                  : arg == "-dp" ? "data-parallel-size"
                                                 : "quantization";
    ASSIGN_OR_RETURN(const std::string value, NextValue(name));
    return SetFlag(*FindFlag(name), value);
  }

  Status ReadLong(const std::string& arg) {
    const size_t equals = arg.find('=');
    const std::string full = arg.substr(2, equals == std::string::npos ? std::string::npos : equals - 2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = arg.substr(equals + 1);

    const size_t dot = full.find('.');
    const std::string name = Dashed(full.substr(0, dot));
    if (name == "config") return SkipConfig(std::move(value));
    if (const FlagSpec* flag = FindFlag(name)) {
      RETURN_IF_ERROR(CheckNotRefused(*flag));
      if (flag->kind == FlagKind::kBool) return SetFlag(*flag, value.value_or("true"));
      if (!value.has_value()) {
        ASSIGN_OR_RETURN(value, NextValue(name));
      }
      if (dot != std::string::npos) return SetDottedFlag(*flag, full.substr(dot + 1), *value);
      return SetFlag(*flag, *value);
    }
    return ReadNegated(name);
  }

  // --no-enable-x of a boolean enable-x.
  Status ReadNegated(const std::string& name) {
    if (name.starts_with("no-")) {
      const FlagSpec* flag = FindFlag(name.substr(3));
      if (flag != nullptr && flag->kind == FlagKind::kBool) {
        out_.settings.Set(flag->name, {json(false), std::string(kOrigin)});
        return OkStatus();
      }
    }
    return UnknownName("flag", name);
  }

  Status SkipConfig(std::optional<std::string> value) {  // the file was read before
    return value.has_value() ? OkStatus() : NextValue("config").status();
  }

  Status SetFlag(const FlagSpec& flag, const std::string& text) {
    StatusOr<json> value = ParseValue(flag, text);
    if (!value.ok()) return Annotate(value.status(), fmt::format("--{}", flag.name));
    json merged = *std::move(value);
    const Setting* before = out_.settings.Find(flag.name);
    if (flag.kind == FlagKind::kList && before != nullptr && before->origin == kOrigin) {
      json list = before->value;
      for (json& item : merged) list.push_back(std::move(item));
      merged = std::move(list);
    }
    out_.settings.Set(flag.name, {std::move(merged), std::string(kOrigin)});
    return OkStatus();
  }

  Status SetDottedFlag(const FlagSpec& flag, std::string_view path, const std::string& text) {
    if (flag.kind != FlagKind::kJson) return InvalidArgumentError("--{} takes no dotted keys", flag.name);
    const Setting* before = out_.settings.Find(flag.name);
    json root = before != nullptr ? before->value : json::object();
    RETURN_IF_ERROR(Annotate(SetDotted(root, path, text), fmt::format("--{}.{}", flag.name, path)));
    out_.settings.Set(flag.name, {std::move(root), std::string(kOrigin)});
    return OkStatus();
  }

  const std::vector<std::string>& args_;
  ParsedSettings& out_;
  size_t index_ = 0;
};

// The file named by --config, else by PACELINE_CONFIG, else empty.
StatusOr<std::string> ConfigPath(const SettingsInput& input) {
  for (size_t i = 0; i < input.args.size(); ++i) {
    if (input.args[i].starts_with("--config=")) return input.args[i].substr(9);
    if (input.args[i] != "--config") continue;
    if (i + 1 == input.args.size()) return InvalidArgumentError("--config wants a value");
    return input.args[i + 1];
  }
  for (const std::string& entry : input.environment) {
    if (entry.starts_with("PACELINE_CONFIG=")) return entry.substr(16);
  }
  return std::string();
}

}  // namespace

const Setting* Settings::Find(std::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

bool Settings::GetBool(std::string_view name, bool fallback) const {
  const Setting* setting = Find(name);
  return setting != nullptr ? setting->value.get<bool>() : fallback;
}

int64_t Settings::GetInt(std::string_view name, int64_t fallback) const {
  const Setting* setting = Find(name);
  return setting != nullptr ? setting->value.get<int64_t>() : fallback;
}

double Settings::GetDouble(std::string_view name, double fallback) const {
  const Setting* setting = Find(name);
  return setting != nullptr ? setting->value.get<double>() : fallback;
}

std::string Settings::GetString(std::string_view name, std::string_view fallback) const {
  const Setting* setting = Find(name);
  return setting != nullptr ? setting->value.get<std::string>() : std::string(fallback);
}

std::vector<std::string> Settings::GetList(std::string_view name) const {
  std::vector<std::string> out;
  if (const Setting* setting = Find(name)) {
    for (const json& item : setting->value)
      out.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  }
  return out;
}

StatusOr<ParsedSettings> ReadSettings(const SettingsInput& input) {
  ParsedSettings out;
  ASSIGN_OR_RETURN(const std::string path, ConfigPath(input));
  if (!path.empty()) RETURN_IF_ERROR(ReadYaml(path, out));
  RETURN_IF_ERROR(ReadEnvironment(input.environment, out));
  RETURN_IF_ERROR(ArgReader(input.args, out).Read());
  return out;
}

std::vector<std::string> ProcessEnvironment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

}  // namespace paceline
