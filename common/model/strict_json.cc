#include "common/model/strict_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "common/model/mapped_file.h"
#include "common/model/printable.h"

namespace paceline {
namespace {

using nlohmann::json;

// The library's callback has no way to stop the parser; leaving by exception does. Caught in ParseStrictJson.
struct LimitCrossed {
  std::string why;
};

// Watches the parse events; the library itself would take any depth and keep the last of equal keys.
class Limits {
 public:
  bool OnEvent(json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        keys_.emplace_back();
        if (keys_.size() > kJsonDepthMax) Refuse(fmt::format("nested deeper than {}", kJsonDepthMax));
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!keys_.back().insert(key).second) Refuse("key " + Printable(key) + " is there twice");
        break;
      }
      case json::parse_event_t::value:
        break;
    }
    return true;
  }

 private:
  [[noreturn]] static void Refuse(std::string why) { throw LimitCrossed{std::move(why)}; }

  std::vector<std::set<std::string>> keys_;  // of the open objects and arrays, outermost first
};

Status WrongType(std::string_view key, std::string_view wanted, const json& found) {
  return InvalidArgumentError("{}: want {}, found {}", Printable(key), wanted,
                              Printable(found.dump(-1, ' ', true)));
}

const json* Find(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(key));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

StatusOr<json> ParseStrictJson(std::string_view text) {
  // The library's lexer takes NUL for the end of the input and would drop what follows.
  if (text.find('\0') != std::string_view::npos) return InvalidArgumentError("not JSON: it holds a NUL byte");
  Limits limits;
  try {
    return json::parse(text.begin(), text.end(), [&](int, json::parse_event_t event, json& parsed) {
      return limits.OnEvent(event, parsed);
    });
  } catch (const LimitCrossed& crossed) {
    return InvalidArgumentError("{}", crossed.why);
  } catch (const json::exception& error) {
    return InvalidArgumentError("not JSON: {}", Printable(error.what()));
  }
}

StatusOr<json> ReadJsonFile(const std::string& path, size_t bytes_max) {
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, bytes_max));
  auto parsed = ParseStrictJson(text);
  if (!parsed.ok()) return Annotate(parsed.status(), path);
  return parsed;
}

bool JsonHas(const json& object, std::string_view key) { return Find(object, key) != nullptr; }

std::optional<uint32_t> AsU32(const json& value) {
  // A number made in code may be signed where the parser would have made it unsigned.
  if (!value.is_number_integer()) return std::nullopt;
  if (!value.is_number_unsigned() && value.get<int64_t>() < 0) return std::nullopt;
  const uint64_t number = value.get<uint64_t>();
  if (number > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(number);
}

StatusOr<std::optional<uint32_t>> JsonU32(const json& object, std::string_view key) {
  const json* value = Find(object, key);
  if (value == nullptr) return std::optional<uint32_t>();
  const std::optional<uint32_t> number = AsU32(*value);
  if (!number) {
    return WrongType(key, fmt::format("an integer from 0 to {}", std::numeric_limits<uint32_t>::max()),
                     *value);
  }
  return number;
}

StatusOr<std::optional<double>> JsonNumber(const json& object, std::string_view key) {
  const json* value = Find(object, key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number() || !std::isfinite(value->get<double>())) return WrongType(key, "a number", *value);
  return std::optional<double>(value->get<double>());
}

StatusOr<std::optional<bool>> JsonBool(const json& object, std::string_view key) {
  const json* value = Find(object, key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return WrongType(key, "true or false", *value);
  return std::optional<bool>(value->get<bool>());
}

StatusOr<std::optional<std::string>> JsonString(const json& object, std::string_view key) {
  const json* value = Find(object, key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return WrongType(key, "a string", *value);
  return std::optional<std::string>(value->get<std::string>());
}

}  // namespace paceline
