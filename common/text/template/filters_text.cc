// Filters that work on text and numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "common/text/template/filters.h"
#include "common/text/template/json_value.h"
#include "common/text/template/text_ops.h"
#include "common/text/template/unicode.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

// Spaces around a number, as int() and float() allow.
std::string_view Trimmed(std::string_view text) { return StripLeft(StripRight(text, nullptr), nullptr); }

std::optional<double> ParseFloat(std::string_view text) {
  std::string copy(Trimmed(text));
  copy.erase(std::remove(copy.begin(), copy.end(), '_'), copy.end());
  const bool plus = !copy.empty() && copy[0] == '+';
  const char* first = copy.data() + (plus ? 1 : 0);
  const char* last = copy.data() + copy.size();
  double number = 0;
  const auto parsed = std::from_chars(first, last, number);
  if (first == last || parsed.ptr != last || (plus && *first == '-')) return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range) return std::strtod(copy.c_str(), nullptr);
  return number;
}

// Digits of `base` with an optional sign and prefix (0x for 16 and so on).
std::optional<int64_t> ParseInt(std::string_view text, int base) {
  std::string_view rest = Trimmed(text);
  std::string digits;
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) {
    if (rest[0] == '-') digits += '-';
    rest.remove_prefix(1);
  }
  if (rest.size() > 2 && rest[0] == '0') {
    const char letter = static_cast<char>(rest[1] | 0x20);
    if ((letter == 'x' && base == 16) || (letter == 'o' && base == 8) || (letter == 'b' && base == 2)) {
      rest.remove_prefix(2);
    }
  }
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  for (const char c : rest) {
    if (c != '_') digits += c;
  }
  int64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> Truncated(double number) {
  if (!(std::abs(number) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(number);
}

// The result of a filter that went through its input character by character, which costs several copies.
StatusOr<Value> Text(Runtime& runtime, std::string text) {
  RETURN_IF_ERROR(runtime.Work(text.size() * 8));
  RETURN_IF_ERROR(runtime.heap.CheckStringLength(text.size()));
  return runtime.heap.String(std::move(text));
}

}  // namespace

StatusOr<Value> FilterUpper(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("upper", args, {}, 0).status());
  ASSIGN_OR_RETURN(const std::string text, ToText(runtime, self));
  return Text(runtime, ToUpper(text));
}

StatusOr<Value> FilterLower(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("lower", args, {}, 0).status());
  ASSIGN_OR_RETURN(const std::string text, ToText(runtime, self));
  return Text(runtime, ToLower(text));
}

StatusOr<Value> FilterCapitalize(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("capitalize", args, {}, 0).status());
  ASSIGN_OR_RETURN(const std::string text, ToText(runtime, self));
  return Text(runtime, ToCapitalized(text));
}

// Unlike str.title, only spaces, hyphens and opening brackets start a word.
StatusOr<Value> FilterTitle(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("title", args, {}, 0).status());
  ASSIGN_OR_RETURN(const std::string text, ToText(runtime, self));
  std::string out;
  bool starts_word = true;
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = DecodeNext(text, pos);
    const std::string_view piece = std::string_view(text).substr(start, pos - start);
    out += starts_word ? ToUpper(piece) : ToLower(piece);
    starts_word = IsPythonSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  }
  return Text(runtime, std::move(out));
}

StatusOr<Value> FilterTrim(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("trim", args, {"chars"}, 0));
  ASSIGN_OR_RETURN(const Value text, ToString(runtime, self));
  return StripText(runtime, text, bound[0], StripSide::kBoth);
}

StatusOr<Value> FilterReplace(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("replace", args, {"old", "new", "count"}, 2));
  ASSIGN_OR_RETURN(const std::string text, ToText(runtime, self));
  ASSIGN_OR_RETURN(const std::string from, ToText(runtime, bound[0]));
  ASSIGN_OR_RETURN(const std::string to, ToText(runtime, bound[1]));
  int64_t count = -1;
  if (!bound[2].is_absent() && !bound[2].is_none()) {
    ASSIGN_OR_RETURN(count, WantInt(bound[2], "replace count"));
  }
  return ReplaceText(runtime, text, from, to, count);
}

StatusOr<Value> FilterString(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("string", args, {}, 0).status());
  return ToString(runtime, self);
}

StatusOr<Value> FilterSafe(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("safe", args, {}, 0).status());
  ASSIGN_OR_RETURN(Value text, ToString(runtime, self));
  text.set_markup(true);
  return text;
}

StatusOr<Value> FilterEscape(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("escape", args, {}, 0).status());
  if (self.is_markup()) return self;
  ASSIGN_OR_RETURN(const std::string text, ToText(runtime, self));
  ASSIGN_OR_RETURN(Value escaped, Text(runtime, EscapeHtml(text)));
  escaped.set_markup(true);
  return escaped;
}

StatusOr<Value> FilterIndent(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("indent", args, {"width", "first", "blank"}, 0));
  ASSIGN_OR_RETURN(const std::string_view text, WantString(self, "the input of indent"));
  std::string indention(4, ' ');
  if (bound[0].is_string()) {
    indention = bound[0].AsString();
  } else if (!bound[0].is_absent()) {
    ASSIGN_OR_RETURN(const int64_t width, WantInt(bound[0], "indent width"));
    RETURN_IF_ERROR(runtime.heap.CheckStringLength(static_cast<size_t>(std::max<int64_t>(width, 0))));
    indention.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  TextBuilder out(runtime.heap);
  if (Truthy(bound[1])) out.Append(indention);
  bool first = true;
  const std::string terminated = std::string(text) + "\n";  // so that the last line counts even if empty
  for (const std::string_view line : SplitLines(terminated, /*keep_ends=*/false)) {
    if (!first) {
      out.Append('\n');
      if (!line.empty() || Truthy(bound[2])) out.Append(indention);
    }
    out.Append(line);
    first = false;
  }
  RETURN_IF_ERROR(runtime.Work(text.size() + out.size()));
  return out.Finish();
}

StatusOr<Value> FilterCenter(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("center", args, {"width"}, 0));
  ASSIGN_OR_RETURN(const std::string text, ToText(runtime, self));
  int64_t width = 80;
  if (!bound[0].is_absent()) {
    ASSIGN_OR_RETURN(width, WantInt(bound[0], "center width"));
  }
  const auto length = static_cast<int64_t>(CodePointCount(text));
  const int64_t padding = std::max<int64_t>(width - length, 0);
  const int64_t left = padding / 2 + (padding & width & 1);  // Python's choice for odd padding
  TextBuilder out(runtime.heap);
  out.AppendRepeated(' ', static_cast<size_t>(left));
  out.Append(text);
  out.AppendRepeated(' ', static_cast<size_t>(padding - left));
  return out.Finish();
}

StatusOr<Value> FilterWordCount(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("wordcount", args, {}, 0).status());
  ASSIGN_OR_RETURN(const std::string text, ToText(runtime, self));
  int64_t words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeNext(text, pos);
    const bool word = IsAlpha(c) || IsDecimalDigit(c) || c == '_';
    if (word && !inside) ++words;
    inside = word;
  }
  return Value::Int(words);
}

StatusOr<Value> FilterInt(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("int", args, {"default", "base"}, 0));
  if (self.is_undefined()) return UndefinedUse(self);
  const Value otherwise = bound[0].is_absent() ? Value::Int(0) : bound[0];
  int64_t base = 10;
  if (!bound[1].is_absent()) {
    ASSIGN_OR_RETURN(base, WantInt(bound[1], "int base"));
    if (base < 2 || base > 36) return InvalidArgumentError("int base must be 2 to 36, found {}", base);
  }
  std::optional<int64_t> number;
  if (self.is_integral()) number = self.AsInt();
  if (self.is_float()) number = Truncated(self.AsDouble());
  if (self.is_string()) {
    RETURN_IF_ERROR(runtime.Work(self.AsString().size()));
    number = ParseInt(self.AsString(), static_cast<int>(base));
    if (!number.has_value()) {
      const std::optional<double> as_float = ParseFloat(self.AsString());
      if (as_float.has_value()) number = Truncated(*as_float);
    }
  }
  return number.has_value() ? Value::Int(*number) : otherwise;
}

StatusOr<Value> FilterFloat(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("float", args, {"default"}, 0));
  if (self.is_undefined()) return UndefinedUse(self);
  if (self.is_number()) return Value::Float(self.AsDouble());
  if (self.is_string()) {
    RETURN_IF_ERROR(runtime.Work(self.AsString().size()));
    const std::optional<double> number = ParseFloat(self.AsString());
    if (number.has_value()) return Value::Float(*number);
  }
  return bound[0].is_absent() ? Value::Float(0.0) : bound[0];
}

StatusOr<Value> FilterAbs(Runtime&, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("abs", args, {}, 0).status());
  if (self.is_float()) return Value::Float(std::abs(self.AsDouble()));
  ASSIGN_OR_RETURN(const int64_t number, WantInt(self, "the input of abs"));
  return number < 0 ? Negate(Value::Int(number)) : Value::Int(number);
}

StatusOr<Value> FilterRound(Runtime&, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("round", args, {"precision", "method"}, 0));
  if (self.is_undefined()) return UndefinedUse(self);
  if (!self.is_number()) return InvalidArgumentError("the input of round must be a number");
  int64_t precision = 0;
  if (!bound[0].is_absent()) {
    ASSIGN_OR_RETURN(precision, WantInt(bound[0], "round precision"));
  }
  if (precision < 0 || precision > 300) return InvalidArgumentError("round precision must be 0 to 300");
  std::string_view method = "common";
  if (!bound[1].is_absent()) {
    ASSIGN_OR_RETURN(method, WantString(bound[1], "round method"));
  }
  if (method == "common") {
    if (self.is_integral()) return Value::Int(self.AsInt());
    // Printing rounds the exact binary value half to even, which is what Python's round() does.
    const std::string text = fmt::format("{:.{}f}", self.AsDouble(), precision);
    return Value::Float(std::strtod(text.c_str(), nullptr));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value::Float(std::ceil(self.AsDouble() * scale) / scale);
  if (method == "floor") return Value::Float(std::floor(self.AsDouble() * scale) / scale);
  return InvalidArgumentError("round method must be common, ceil or floor, found '{}'", method);
}

StatusOr<Value> FilterToJson(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound,
                   BindArgs("tojson", args, {"indent", "ensure_ascii", "separators", "sort_keys"}, 0));
  JsonStyle style;
  style.ensure_ascii = Truthy(bound[1]);
  style.sort_keys = Truthy(bound[3]);
  if (!bound[0].is_absent() && !bound[0].is_none()) {
    style.pretty = true;
    style.item_separator.resize(1);  // without the space
    if (bound[0].is_string()) {
      style.indent = bound[0].AsString();
    } else {
      ASSIGN_OR_RETURN(const int64_t width, WantInt(bound[0], "tojson indent"));
      const auto spaces = static_cast<size_t>(std::max<int64_t>(width, 0));
      RETURN_IF_ERROR(runtime.heap.CheckStringLength(spaces));
      style.indent.assign(spaces, ' ');
    }
  }
  if (!bound[2].is_absent() && !bound[2].is_none()) {
    if (!bound[2].is_list() || bound[2].AsList().items.size() != 2) {
      return InvalidArgumentError("tojson separators must be a pair of strings");
    }
    ASSIGN_OR_RETURN(style.item_separator, WantString(bound[2].AsList().items[0], "a tojson separator"));
    ASSIGN_OR_RETURN(style.key_separator, WantString(bound[2].AsList().items[1], "a tojson separator"));
  }
  return ToJson(runtime, self, style);
}

StatusOr<Value> FilterFromJson(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("from_json", args, {}, 0).status());
  ASSIGN_OR_RETURN(const std::string_view text, WantString(self, "the input of from_json"));
  return ParseJson(runtime, text);
}

StatusOr<Value> FilterDefault(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("default", args, {"default_value", "boolean"}, 0));
  if (!self.is_undefined() && !(Truthy(bound[1]) && !Truthy(self))) return self;
  return bound[0].is_absent() ? runtime.heap.String("") : bound[0];
}

}  // namespace paceline::jinja
