#include "common/text/byte_alphabet.h"

#include <array>

#include "common/text/unicode.h"

namespace paceline {
namespace {

constexpr int kAlphabetEnd = 0x144;  // 0x100 + 68

struct Tables {
  std::array<char32_t, 256> of_byte{};
  std::array<int, kAlphabetEnd> of_code_point{};  // -1 = outside
};

bool StandsForItself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

Tables BuildTables() {
  Tables tables;
  tables.of_code_point.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
    tables.of_byte[static_cast<size_t>(byte)] = c;
    tables.of_code_point[c] = byte;
  }
  return tables;
}

const Tables& AlphabetTables() {
  static const Tables tables = BuildTables();
  return tables;
}

}  // namespace

char32_t AlphabetOfByte(uint8_t byte) { return AlphabetTables().of_byte[byte]; }

std::optional<uint8_t> ByteOfAlphabet(char32_t c) {
  if (c >= kAlphabetEnd || AlphabetTables().of_code_point[c] < 0) return std::nullopt;
  return static_cast<uint8_t>(AlphabetTables().of_code_point[c]);
}

std::optional<std::string> BytesOfAlphabetText(std::string_view utf8) {
  std::string bytes;
  while (!utf8.empty()) {
    const Utf8Unit unit = NextUtf8(utf8);
    if (unit.kind != Utf8Unit::Kind::kComplete) return std::nullopt;
    const std::optional<uint8_t> byte = ByteOfAlphabet(unit.code_point);
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    utf8.remove_prefix(unit.bytes);
  }
  return bytes;
}

}  // namespace paceline
