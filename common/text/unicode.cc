#include "common/text/unicode.h"

#include <utf8proc.h>

#include <vector>

namespace paceline {
namespace {

constexpr char32_t kCodePoints = 0x110000;

bool HasWhiteSpaceProperty(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// One byte per code point keeps the hot rows in cache: five bits of category, bit 7 for White_Space.
std::vector<uint8_t> BuildTable() {
  std::vector<uint8_t> table(kCodePoints);
  for (char32_t c = 0; c < kCodePoints; ++c) {
    table[c] = static_cast<uint8_t>(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
    if (HasWhiteSpaceProperty(c)) table[c] |= 0x80;
  }
  return table;
}

// Other_Alphabetic code points that are neither letters, marks nor letter numbers: circled and squared
// letters.
bool IsAlphabeticSymbol(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Table 3-7 of the Unicode standard: the second byte decides overlong forms, surrogates and the upper end.
bool IsSecondByte(unsigned char lead, unsigned char second) {
  switch (lead) {
    case 0xE0:
      return second >= 0xA0 && second <= 0xBF;
    case 0xED:
      return second >= 0x80 && second <= 0x9F;
    case 0xF0:
      return second >= 0x90 && second <= 0xBF;
    case 0xF4:
      return second >= 0x80 && second <= 0x8F;
    default:
      return IsContinuation(second);
  }
}

}  // namespace

CategoryMask MaskOf(char32_t c) {
  static const std::vector<uint8_t> table = BuildTable();
  if (c >= kCodePoints) return 1u;
  const uint8_t info = table[c];
  return (1u << (info & 31)) | ((info & 0x80) != 0 ? kWhiteSpace : 0u);
}

bool IsWordCharacter(char32_t c) {
  if (c < 0x80) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  }
  return (MaskOf(c) & (kLetter | kMark | kDecimalNumber | kLetterNumber | kConnectorPunctuation)) != 0 ||
         IsAlphabeticSymbol(c) || c == 0x200C || c == 0x200D;
}

bool IsBertPunctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && (!IsWordCharacter(c) || c == '_');
  return (MaskOf(c) & kPunctuation) != 0;
}

Utf8Unit NextUtf8(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0x80) return {1, Utf8Unit::Kind::kComplete, lead};
  if (lead < 0xC2 || lead > 0xF4) return {1, Utf8Unit::Kind::kInvalid, 0};
  const size_t length = Utf8Length(bytes[0]);
  char32_t code_point = lead & (0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {i, Utf8Unit::Kind::kIncomplete, 0};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (i == 1 ? !IsSecondByte(lead, byte) : !IsContinuation(byte)) return {i, Utf8Unit::Kind::kInvalid, 0};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {length, Utf8Unit::Kind::kComplete, code_point};
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

std::string ToUtf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) AppendUtf8(c, &out);
  return out;
}

bool DecodeUtf8(std::string_view utf8, std::u32string* out) {
  out->clear();
  out->reserve(utf8.size());
  while (!utf8.empty()) {
    const Utf8Unit unit = NextUtf8(utf8);
    if (unit.kind != Utf8Unit::Kind::kComplete) return false;
    out->push_back(unit.code_point);
    utf8.remove_prefix(unit.bytes);
  }
  return true;
}

bool IsValidUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Unit unit = NextUtf8(bytes);
    if (unit.kind != Utf8Unit::Kind::kComplete) return false;
    bytes.remove_prefix(unit.bytes);
  }
  return true;
}

std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  for (size_t hit = text.find(pattern); hit != text.npos; hit = text.find(pattern, at)) {
    out.append(text.substr(at, hit - at)).append(content);
    at = hit + pattern.size();
  }
  return out.append(text.substr(at));
}

}  // namespace paceline
