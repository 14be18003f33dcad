#include "common/protocol/speculation.h"

namespace paceline {

// One round of splitmix64's mixer per id (Steele, Lea, Flood, OOPSLA 2014): cheap, and each id moves all
// bits.
uint64_t IdDigest(uint64_t digest, TokenId id) {
  uint64_t z = digest + 0x9E3779B97F4A7C15ull + static_cast<uint32_t>(id);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace paceline
