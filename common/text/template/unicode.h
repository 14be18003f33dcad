// Text as Python sees it: strings are UTF-8 here, but indices, lengths and slices count code points.
//
// Ill-formed bytes decode as U+FFFD, one byte at a time, so no function here reads past its argument.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::jinja {

bool IsAscii(std::string_view text);
bool IsValidUtf8(std::string_view text);

// The code point at `pos`, which moves behind it. Requires pos < text.size().
char32_t DecodeNext(std::string_view text, size_t& pos);
void AppendUtf8(std::string& out, char32_t code_point);

size_t CodePointCount(std::string_view text);
std::vector<char32_t> Decode(std::string_view text);
std::string Encode(const std::vector<char32_t>& code_points);

bool IsPythonSpace(char32_t c);      // str.isspace
bool IsPythonLineBreak(char32_t c);  // what str.splitlines splits at
bool IsPrintable(char32_t c);        // what repr() leaves unescaped
bool IsAlpha(char32_t c);
bool IsDecimalDigit(char32_t c);
bool IsUpperCase(char32_t c);
bool IsLowerCase(char32_t c);

std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string ToCapitalized(std::string_view text);  // first character upper, the rest lower
std::string ToTitle(std::string_view text);        // str.title: words are runs of letters

// Strips white space, or any of the code points of `chars` when given.
std::string_view StripLeft(std::string_view text, const std::string_view* chars);
std::string_view StripRight(std::string_view text, const std::string_view* chars);

}  // namespace paceline::jinja
