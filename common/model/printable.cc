#include "common/model/printable.h"

#include <fmt/core.h>

namespace paceline {

std::string Printable(std::string_view text) {
  constexpr size_t kBytesMax = 96;
  std::string out;
  for (const char c : text.substr(0, kBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7E || byte == '\\') {
      out += fmt::format("\\x{:02X}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > kBytesMax) out += "...";
  return out;
}

}  // namespace paceline
