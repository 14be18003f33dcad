// Unicode as the tokenizers need it: UTF-8 in both directions and a constant-time category of each code
// point.
//
// Pure functions, any thread. The category table (1.1 MB, from utf8proc) is built once, on first use.
//
//   if (MaskOf(c) & (kLetter | kMark)) ...
//   Utf8Unit unit = NextUtf8("\xE4\xBD");   // {2, kIncomplete}: so far valid, the third byte is missing
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline {

// One bit per general category (bit = utf8proc's number), and bit 31 for White_Space, which cuts across them.
using CategoryMask = uint32_t;
inline constexpr CategoryMask kUppercase = 1u << 1, kLowercase = 1u << 2, kTitlecase = 1u << 3;
inline constexpr CategoryMask kModifierLetter = 1u << 4, kOtherLetter = 1u << 5;
inline constexpr CategoryMask kLetter =
    kUppercase | kLowercase | kTitlecase | kModifierLetter | kOtherLetter;  // \p{L}
inline constexpr CategoryMask kNonspacingMark = 1u << 6;
inline constexpr CategoryMask kMark = 7u << 6;  // \p{M}
inline constexpr CategoryMask kDecimalNumber = 1u << 9, kLetterNumber = 1u << 10;
inline constexpr CategoryMask kNumber = 7u << 9;  // \p{N}
inline constexpr CategoryMask kConnectorPunctuation = 1u << 12;
inline constexpr CategoryMask kPunctuation = 127u << 12;  // \p{P}
inline constexpr CategoryMask kSymbol = 15u << 19;        // \p{S}
inline constexpr CategoryMask kSeparator = 7u << 23;      // \p{Z}
inline constexpr CategoryMask kOther = (15u << 26) | 1u;  // \p{C}, unassigned included
inline constexpr CategoryMask kWhiteSpace = 1u << 31;     // \s

CategoryMask MaskOf(char32_t c);
inline bool IsNewline(char32_t c) { return c == U'\r' || c == U'\n'; }
// \w of UTS 18: alphabetic, mark, decimal number, connector punctuation, join control.
bool IsWordCharacter(char32_t c);
// ASCII punctuation (symbols such as $ and + included) or \p{P}: what BERT calls punctuation.
bool IsBertPunctuation(char32_t c);

struct Utf8Unit {
  enum class Kind { kComplete, kIncomplete, kInvalid };
  size_t bytes = 0;  // kInvalid: the maximal subpart to replace, at least 1
  Kind kind = Kind::kInvalid;
  char32_t code_point = 0;  // kComplete only
};
// Looks at the start of `bytes` (not empty). kIncomplete: the bytes end inside a character that is valid so
// far.
Utf8Unit NextUtf8(std::string_view bytes);

void AppendUtf8(char32_t c, std::string* out);
std::string ToUtf8(std::u32string_view text);
// False when `utf8` is not valid; `out` then holds the valid prefix.
bool DecodeUtf8(std::string_view utf8, std::u32string* out);
bool IsValidUtf8(std::string_view bytes);

// `text` with every `pattern` (not empty) replaced, from left to right.
std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content);

// Length in bytes of the character whose first byte is `lead`, in valid UTF-8.
inline size_t Utf8Length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace paceline
