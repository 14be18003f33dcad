#include "common/text/template/value_ops.h"

#include <charconv>
#include <cmath>

#include "common/text/template/callable.h"
#include "common/text/template/unicode.h"

namespace paceline::jinja {
namespace {

void AppendStringRepr(TextBuilder& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out.Append(quote);
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = DecodeNext(text, pos);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out.Append('\\');
      out.Append(static_cast<char>(c));
    } else if (c == '\n') {
      out.Append("\\n");
    } else if (c == '\r') {
      out.Append("\\r");
    } else if (c == '\t') {
      out.Append("\\t");
    } else if (IsPrintable(c)) {
      out.Append(text.substr(start, pos - start));
    } else if (c < 0x100) {
      out.Append(fmt::format("\\x{:02x}", static_cast<uint32_t>(c)));
    } else if (c < 0x10000) {
      out.Append(fmt::format("\\u{:04x}", static_cast<uint32_t>(c)));
    } else {
      out.Append(fmt::format("\\U{:08x}", static_cast<uint32_t>(c)));
    }
  }
  out.Append(quote);
}

class ReprWriter {
 public:
  ReprWriter(Runtime& runtime, TextBuilder& out) : runtime_(runtime), out_(out) {}

  Status Write(const Value& value) {
    DepthGuard guard(depth_, kValueDepthMax);
    if (!guard.fits()) return NestedTooDeep();
    RETURN_IF_ERROR(runtime_.ExpressionNode());
    switch (value.kind()) {
      case Kind::kUndefined:
        out_.Append("Undefined");
        return OkStatus();
      case Kind::kNone:
        out_.Append("None");
        return OkStatus();
      case Kind::kBool:
        out_.Append(value.AsBool() ? "True" : "False");
        return OkStatus();
      case Kind::kInt:
        out_.Append(std::to_string(value.AsInt()));
        return OkStatus();
      case Kind::kFloat:
        out_.Append(FloatRepr(value.AsDouble()));
        return OkStatus();
      case Kind::kString:
        AppendStringRepr(out_, value.AsString());
        return OkStatus();
      case Kind::kList:
        return WriteList(value.AsList());
      case Kind::kDict:
        return WriteDict(value.AsDict());
      case Kind::kNamespace:
        out_.Append("<Namespace ");
        RETURN_IF_ERROR(WriteDict(value.AsDict()));
        out_.Append('>');
        return OkStatus();
      default:
        // Python prints an address here; a render must not depend on one.
        out_.Append(fmt::format("<{}>", TypeName(value)));
        return OkStatus();
    }
  }

 private:
  Status WriteList(const ListObject& list) {
    const bool tuple = list.flavor == ListFlavor::kTuple;
    out_.Append(tuple ? '(' : '[');
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.Append(", ");
      RETURN_IF_ERROR(Write(list.items[i]));
    }
    if (tuple && list.items.size() == 1) out_.Append(',');
    out_.Append(tuple ? ')' : ']');
    return OkStatus();
  }

  Status WriteDict(const DictObject& dict) {
    out_.Append('{');
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) out_.Append(", ");
      RETURN_IF_ERROR(Write(dict.entries[i].key));
      out_.Append(": ");
      RETURN_IF_ERROR(Write(dict.entries[i].value));
    }
    out_.Append('}');
    return OkStatus();
  }

  Runtime& runtime_;
  TextBuilder& out_;
  uint32_t depth_ = 0;
};

}  // namespace

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      switch (value.AsList().flavor) {
        case ListFlavor::kList:
          return "list";
        case ListFlavor::kTuple:
          return "tuple";
        case ListFlavor::kView:
          return "dict view";
        case ListFlavor::kGenerator:
          return "generator";
      }
      return "list";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kCallable:
      return value.AsCallable().macro != nullptr ? "macro" : "function";
    case Kind::kLoop:
      return "loop";
    case Kind::kScope:
      return "scope";
  }
  return "value";
}

bool Truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.AsBool();
    case Kind::kInt:
      return value.AsInt() != 0;
    case Kind::kFloat:
      return value.AsDouble() != 0.0;
    case Kind::kString:
      return !value.AsString().empty();
    case Kind::kList:  // Python does not look inside a generator
      return value.AsList().flavor == ListFlavor::kGenerator || !value.AsList().items.empty();
    case Kind::kDict:
      return !value.AsDict().entries.empty();
    default:
      return true;
  }
}

Status UndefinedUse(const Value& value) {
  const std::string_view name = value.undefined_name();
  if (name.empty()) return InvalidArgumentError("a value is undefined");
  return InvalidArgumentError("'{}' is undefined", name);
}

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(result.ptr - buffer));
  const bool negative = text.front() == '-';
  if (negative) text.remove_prefix(1);
  const size_t e = text.find('e');
  int exponent = 0;
  std::string_view exponent_text = text.substr(e + 1);
  if (exponent_text.front() == '+') exponent_text.remove_prefix(1);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  std::string digits(text.substr(0, e));
  if (digits.size() > 1) digits.erase(1, 1);  // the point

  // Python prints exponents only outside 1e-4 .. 1e16.
  const char* sign = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    const std::string_view rest = std::string_view(digits).substr(1);
    return fmt::format("{}{}{}{}e{}{:02}", sign, digits[0], rest.empty() ? "" : ".", rest,
                       exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return fmt::format("{}0.{:0<{}}{}", sign, "", -exponent - 1, digits);
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return fmt::format("{}{:0<{}}.0", sign, digits, whole);
  return fmt::format("{}{}.{}", sign, digits.substr(0, whole), digits.substr(whole));
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

StatusOr<std::string> ToText(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return std::string();
  if (value.is_string()) {
    RETURN_IF_ERROR(runtime.Work(value.AsString().size()));
    return std::string(value.AsString());
  }
  return Repr(runtime, value);
}

StatusOr<Value> ToString(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value;
  ASSIGN_OR_RETURN(std::string text, ToText(runtime, value));
  return runtime.heap.String(std::move(text));
}

StatusOr<std::string> Repr(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime.heap);
  RETURN_IF_ERROR(ReprWriter(runtime, out).Write(value));
  RETURN_IF_ERROR(runtime.Work(out.size()));
  return out.FinishText();
}

StatusOr<std::string_view> WantString(const Value& value, std::string_view what) {
  if (value.is_string()) return value.AsString();
  if (value.is_undefined() && !value.is_absent()) return UndefinedUse(value);
  return InvalidArgumentError("{} must be a string, found {}", what, TypeName(value));
}

StatusOr<int64_t> WantInt(const Value& value, std::string_view what) {
  if (value.is_integral()) return value.AsInt();
  if (value.is_undefined() && !value.is_absent()) return UndefinedUse(value);
  return InvalidArgumentError("{} must be an integer, found {}", what, TypeName(value));
}

}  // namespace paceline::jinja
