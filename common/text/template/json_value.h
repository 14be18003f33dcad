// JSON to template values and back: the request's context, the tojson and from_json filters.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "common/text/template/runtime.h"
#include "common/text/template/value.h"

namespace paceline::jinja {

// Integers beyond 64 bits signed become floats; bytes that are not UTF-8 become U+FFFD.
StatusOr<Value> FromJson(Heap& heap, const nlohmann::ordered_json& json);
StatusOr<Value> ParseJson(Runtime& runtime, std::string_view text);

// json.dumps(): ", " and ": " unless told otherwise, keys in their order.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool pretty = false;
  std::string indent;  // of one level, if pretty
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
StatusOr<Value> ToJson(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace paceline::jinja
