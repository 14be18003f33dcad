#include "common/text/template/json_value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/text/template/unicode.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::string Sanitized(const std::string& text) {
  if (IsValidUtf8(text)) return text;
  return Encode(Decode(text));
}

StatusOr<Value> Convert(Heap& heap, const Json& json, uint32_t depth) {
  if (depth > kValueDepthMax) return NestedTooDeep();
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::Int(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Value::Float(static_cast<double>(number));
      }
      return Value::Int(static_cast<int64_t>(number));
    }
    case Json::value_t::number_float:
      return Value::Float(json.get<double>());
    case Json::value_t::string:
      return heap.String(Sanitized(json.get_ref<const std::string&>()));
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& element : json) {
        ASSIGN_OR_RETURN(Value item, Convert(heap, element, depth + 1));
        items.push_back(std::move(item));
      }
      return heap.List(std::move(items));
    }
    case Json::value_t::object: {
      Value dict = heap.Dict();
      for (auto it = json.begin(); it != json.end(); ++it) {
        ASSIGN_OR_RETURN(Value value, Convert(heap, it.value(), depth + 1));
        dict.AsDict().SetString(Sanitized(it.key()), std::move(value));
      }
      return dict;
    }
    default:
      return Value::None();
  }
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style, TextBuilder& out)
      : runtime_(runtime), style_(style), out_(out) {}

  Status Write(const Value& value) {
    DepthGuard guard(depth_, kValueDepthMax);
    if (!guard.fits()) return NestedTooDeep();
    RETURN_IF_ERROR(runtime_.ExpressionNode());
    switch (value.kind()) {
      case Kind::kString:
        WriteString(value.AsString());
        return OkStatus();
      case Kind::kList:
        if (value.AsList().flavor == ListFlavor::kList || value.AsList().flavor == ListFlavor::kTuple) {
          return WriteList(value.AsList());
        }
        break;
      case Kind::kDict:
        return WriteDict(value.AsDict());
      case Kind::kUndefined:
        return UndefinedUse(value);
      default:
        if (!value.is_none() && !value.is_number()) break;
        out_.Append(Scalar(value));
        return OkStatus();
    }
    return InvalidArgumentError("'{}' has no JSON form; make it a |list first", TypeName(value));
  }

 private:
  static std::string Scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.AsBool() ? "true" : "false";
    if (value.is_int()) return std::to_string(value.AsInt());
    if (std::isnan(value.AsDouble())) return "NaN";
    if (std::isinf(value.AsDouble())) return value.AsDouble() > 0 ? "Infinity" : "-Infinity";
    return FloatRepr(value.AsDouble());
  }

  void WriteString(std::string_view text) {
    out_.Append('"');
    for (size_t pos = 0; pos < text.size();) {
      const size_t start = pos;
      const char32_t c = DecodeNext(text, pos);
      if (c < 0x20 || c == '"' || c == '\\') {
        WriteEscape(c);
      } else if (style_.ensure_ascii && c >= 0x7F) {
        WriteAscii(c);
      } else {
        out_.Append(text.substr(start, pos - start));
      }
    }
    out_.Append('"');
  }

  void WriteEscape(char32_t c) {
    static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kTo = "\"\\nrtfb";
    const size_t simple = kFrom.find(static_cast<char>(c));
    if (simple == std::string_view::npos) {
      out_.Append(fmt::format("\\u{:04x}", static_cast<uint32_t>(c)));
      return;
    }
    out_.Append('\\');
    out_.Append(kTo[simple]);
  }

  void WriteAscii(char32_t c) {
    if (c == 0x7F) {
      out_.Append('\x7F');
    } else if (c < 0x10000) {
      out_.Append(fmt::format("\\u{:04x}", static_cast<uint32_t>(c)));
    } else {
      const auto rest = static_cast<uint32_t>(c) - 0x10000;
      out_.Append(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF)));
    }
  }

  void NewLine() {
    if (!style_.pretty) return;
    out_.Append('\n');
    for (uint32_t i = 1; i < depth_ + extra_; ++i) out_.Append(style_.indent);
  }

  Status WriteList(const ListObject& list) {
    if (list.items.empty()) {
      out_.Append("[]");
      return OkStatus();
    }
    out_.Append('[');
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.Append(style_.item_separator);
      Indented();
      RETURN_IF_ERROR(Write(list.items[i]));
    }
    NewLine();
    out_.Append(']');
    return OkStatus();
  }

  void Indented() {
    extra_ = 1;
    NewLine();
    extra_ = 0;
  }

  Status WriteDict(const DictObject& dict) {
    if (dict.entries.empty()) {
      out_.Append("{}");
      return OkStatus();
    }
    std::vector<const DictEntry*> entries;
    for (const DictEntry& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) RETURN_IF_ERROR(SortByKey(entries));
    out_.Append('{');
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.Append(style_.item_separator);
      Indented();
      const Value& key = entries[i]->key;
      if (key.is_undefined()) return UndefinedUse(key);
      WriteString(key.is_string() ? std::string(key.AsString()) : Scalar(key));
      out_.Append(style_.key_separator);
      RETURN_IF_ERROR(Write(entries[i]->value));
    }
    NewLine();
    out_.Append('}');
    return OkStatus();
  }

  Status SortByKey(std::vector<const DictEntry*>& entries) {
    for (const DictEntry* entry : entries) RETURN_IF_ERROR(WantString(entry->key, "a sorted key").status());
    RETURN_IF_ERROR(runtime_.Step(entries.size()));
    std::stable_sort(entries.begin(), entries.end(), [](const DictEntry* a, const DictEntry* b) {
      return a->key.AsString() < b->key.AsString();
    });
    return OkStatus();
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextBuilder& out_;
  uint32_t depth_ = 0;  // of the container being written, 1 at the top
  uint32_t extra_ = 0;
};

}  // namespace

StatusOr<Value> FromJson(Heap& heap, const Json& json) { return Convert(heap, json, 1); }

StatusOr<Value> ParseJson(Runtime& runtime, std::string_view text) {
  RETURN_IF_ERROR(runtime.Work(text.size() * 8));  // parsing and converting cost about that much more
  RETURN_IF_ERROR(runtime.heap.CheckRoom(text.size() * sizeof(Json)));
  const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return InvalidArgumentError("from_json: the text is not JSON");
  return FromJson(runtime.heap, parsed);
}

StatusOr<Value> ToJson(Runtime& runtime, const Value& value, const JsonStyle& style) {
  TextBuilder out(runtime.heap);
  RETURN_IF_ERROR(JsonWriter(runtime, style, out).Write(value));
  RETURN_IF_ERROR(runtime.Work(out.size()));
  return out.Finish();
}

}  // namespace paceline::jinja
