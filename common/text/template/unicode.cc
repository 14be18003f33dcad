#include "common/text/template/unicode.h"

#include <utf8proc.h>

#include <algorithm>

namespace paceline::jinja {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

utf8proc_category_t Category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool IsCased(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

void AppendUpper(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    return;
  }
  // The one full mapping that turns up in chat text; simple mappings would keep the letter small.
  if (c == 0xDF) {
    out += "SS";
    return;
  }
  AppendUtf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void AppendLower(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  AppendUtf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

bool Contains(std::string_view chars, char32_t wanted) {
  for (size_t pos = 0; pos < chars.size();) {
    if (DecodeNext(chars, pos) == wanted) return true;
  }
  return false;
}

bool Strips(char32_t c, const std::string_view* chars) {
  return chars != nullptr ? Contains(*chars, c) : IsPythonSpace(c);
}

// Start of the code point that ends at `end`.
size_t PreviousStart(std::string_view text, size_t end) {
  size_t start = end - 1;
  while (start > 0 && end - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  size_t pos = start;
  DecodeNext(text, pos);
  return pos == end ? start : end - 1;
}

}  // namespace

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool IsValidUtf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    if (DecodeNext(text, pos) == kReplacement && text.substr(start, 3) != "\xEF\xBF\xBD") return false;
  }
  return true;
}

char32_t DecodeNext(std::string_view text, size_t& pos) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(pos);
  if (lead < 0x80) {
    ++pos;
    return lead;
  }
  const size_t len = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  static constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  char32_t c = lead & (0xFF >> (len + 1));
  bool valid = lead >= 0xC2 && lead <= 0xF4 && pos + len <= text.size();
  for (size_t i = 1; valid && i < len; ++i) {
    valid = (byte(pos + i) & 0xC0) == 0x80;
    c = (c << 6) | (byte(pos + i) & 0x3F);
  }
  if (!valid || c < kSmallest[len] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
    ++pos;
    return kReplacement;
  }
  pos += len;
  return c;
}

void AppendUtf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t CodePointCount(std::string_view text) {
  if (IsAscii(text)) return text.size();
  size_t count = 0;
  for (size_t pos = 0; pos < text.size(); ++count) DecodeNext(text, pos);
  return count;
}

std::vector<char32_t> Decode(std::string_view text) {
  std::vector<char32_t> out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) out.push_back(DecodeNext(text, pos));
  return out;
}

std::string Encode(const std::vector<char32_t>& code_points) {
  std::string out;
  out.reserve(code_points.size());
  for (const char32_t c : code_points) AppendUtf8(out, c);
  return out;
}

bool IsPythonSpace(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsPythonLineBreak(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool IsAlpha(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return IsCased(c) || category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_LO;
}

bool IsDecimalDigit(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_ND; }
bool IsUpperCase(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_LU; }
bool IsLowerCase(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_LL; }

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) AppendUpper(out, DecodeNext(text, pos));
  return out;
}

std::string ToLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) AppendLower(out, DecodeNext(text, pos));
  return out;
}

std::string ToCapitalized(std::string_view text) {
  if (text.empty()) return {};
  std::string out;
  out.reserve(text.size());
  size_t pos = 0;
  AppendUpper(out, DecodeNext(text, pos));
  return out + ToLower(text.substr(pos));
}

std::string ToTitle(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool inside_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeNext(text, pos);
    inside_word ? AppendLower(out, c) : AppendUpper(out, c);
    inside_word = IsCased(c);
  }
  return out;
}

std::string_view StripLeft(std::string_view text, const std::string_view* chars) {
  size_t pos = 0;
  while (pos < text.size()) {
    size_t next = pos;
    if (!Strips(DecodeNext(text, next), chars)) break;
    pos = next;
  }
  return text.substr(pos);
}

std::string_view StripRight(std::string_view text, const std::string_view* chars) {
  size_t end = text.size();
  while (end > 0) {
    const size_t start = PreviousStart(text, end);
    size_t pos = start;
    if (!Strips(DecodeNext(text, pos), chars)) break;
    end = start;
  }
  return text.substr(0, end);
}

}  // namespace paceline::jinja
