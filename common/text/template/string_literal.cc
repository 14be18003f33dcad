#include "common/text/template/string_literal.h"

#include "common/text/template/unicode.h"

namespace paceline::jinja {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char SimpleEscape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return '\0';
  }
}

// Reads `digits` hex digits at `pos`.
StatusOr<char32_t> HexEscape(std::string_view body, size_t& pos, size_t digits) {
  char32_t c = 0;
  for (size_t i = 0; i < digits; ++i, ++pos) {
    const int digit = pos < body.size() ? HexDigit(body[pos]) : -1;
    if (digit < 0) return InvalidArgumentError("string escape needs {} hexadecimal digits", digits);
    c = c * 16 + static_cast<char32_t>(digit);
  }
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
    return InvalidArgumentError("string escape U+{:04X} is not a character", static_cast<uint32_t>(c));
  }
  return c;
}

char32_t OctalEscape(std::string_view body, size_t& pos) {
  char32_t c = 0;
  for (size_t i = 0; i < 3 && pos < body.size() && body[pos] >= '0' && body[pos] <= '7'; ++i, ++pos) {
    c = c * 8 + static_cast<char32_t>(body[pos] - '0');
  }
  return c;
}

}  // namespace

StatusOr<std::string> DecodeStringLiteral(std::string_view body) {
  std::string out;
  out.reserve(body.size());
  for (size_t pos = 0; pos < body.size();) {
    const char c = body[pos++];
    if (c != '\\') {
      out += c;
      continue;
    }
    if (pos == body.size()) return InvalidArgumentError("string ends in a backslash");
    const char escape = body[pos];
    if (escape == '\n') {  // a continued line
      ++pos;
    } else if (escape == 'x' || escape == 'u' || escape == 'U') {
      ++pos;
      ASSIGN_OR_RETURN(const char32_t decoded, HexEscape(body, pos,
                                                         escape == 'x'   ? 2
                                                         : escape == 'u' ? 4
                                                                         : 8));
      AppendUtf8(out, decoded);
    } else if (escape >= '0' && escape <= '7') {
      AppendUtf8(out, OctalEscape(body, pos));
    } else if (escape == 'N') {
      return InvalidArgumentError("string escape \\N is not supported");
    } else if (const char simple = SimpleEscape(escape); simple != '\0') {
      out += simple;
      ++pos;
    } else {
      out += '\\';  // Python keeps a backslash it does not know
    }
  }
  return out;
}

}  // namespace paceline::jinja
