// The byte alphabet of byte-level BPE: each byte is a printable code point, so that any bytes are text.
//
// Bytes 33-126, 161-172 and 174-255 stand for themselves; the other 68, in increasing order, are U+0100,
// U+0101, ... (space is U+0120, newline U+010A). Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

char32_t AlphabetOfByte(uint8_t byte);
// Nullopt for a code point outside the alphabet.
std::optional<uint8_t> ByteOfAlphabet(char32_t c);
// The bytes a vocabulary text stands for; nullopt if it is not written in the alphabet.
std::optional<std::string> BytesOfAlphabetText(std::string_view utf8);

}  // namespace paceline
