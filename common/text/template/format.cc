#include "common/text/template/format.h"

#include <algorithm>
#include <charconv>

#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

bool IsPlainName(std::string_view field) {
  return std::all_of(field.begin(), field.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  });
}

// Numbering of fields: by themselves ("{}") or by the format ("{0}"), not both.
struct Numbering {
  size_t next = 0;
  bool automatic = false;
  bool manual = false;
};

StatusOr<Value> FieldValue(std::string_view field, const CallArgs& args, Numbering& numbering) {
  if (!IsPlainName(field)) return UnimplementedError("str.format field '{{{}}}' is not supported", field);
  size_t index = numbering.next;
  if (field.empty()) {
    ++numbering.next;
    numbering.automatic = true;
  } else if (std::from_chars(field.data(), field.data() + field.size(), index).ptr !=
             field.data() + field.size()) {
    for (const auto& [name, value] : args.keyword) {
      if (name == field) return value;
    }
    return InvalidArgumentError("str.format has no argument '{}'", field);
  } else {
    numbering.manual = true;
  }
  if (numbering.automatic && numbering.manual) {
    return InvalidArgumentError("str.format mixes '{{}}' with numbered fields");
  }
  if (index >= args.positional.size()) {
    return InvalidArgumentError("str.format needs argument {}, found {} arguments", index,
                                args.positional.size());
  }
  return args.positional[index];
}

}  // namespace

StatusOr<Value> FormatText(Runtime& runtime, std::string_view format, const CallArgs& args) {
  TextBuilder out(runtime.heap);
  Numbering numbering;
  for (size_t pos = 0; pos < format.size();) {
    const char c = format[pos];
    const bool doubled = pos + 1 < format.size() && format[pos + 1] == c;
    if (c != '{' && c != '}') {
      out.Append(c);
      ++pos;
    } else if (doubled) {
      out.Append(c);
      pos += 2;
    } else {
      const size_t end = format.find('}', pos);
      if (c == '}' || end == std::string_view::npos) {
        return InvalidArgumentError("str.format: single '{}' in the format", c);
      }
      ASSIGN_OR_RETURN(const Value value, FieldValue(format.substr(pos + 1, end - pos - 1), args, numbering));
      ASSIGN_OR_RETURN(const std::string text, ToText(runtime, value));
      out.Append(text);
      pos = end + 1;
    }
  }
  RETURN_IF_ERROR(runtime.Work(format.size() + out.size()));
  return out.Finish();
}

}  // namespace paceline::jinja
