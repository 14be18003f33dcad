#include "common/base/philox.h"

#include "common/base/portable_math.h"

namespace paceline {
namespace {

constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

double UniformFromBits(uint32_t bits24) { return (static_cast<double>(bits24) + 0.5) * (1.0 / 16777216.0); }

}  // namespace

std::array<uint32_t, 4> Philox4x32(uint64_t key, std::array<uint32_t, 4> counter) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMul0) * counter[0];
    const uint64_t p1 = static_cast<uint64_t>(kMul1) * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return counter;
}

std::array<uint32_t, 4> NoiseBits(const NoiseKey& key, uint32_t quad) {
  auto words = Philox4x32(key.seed, {quad, key.position, key.choice, static_cast<uint32_t>(key.purpose)});
  for (uint32_t& word : words) word >>= 8;
  return words;
}

double UniformAt(const NoiseKey& key, uint32_t index) {
  return UniformFromBits(NoiseBits(key, index / 4)[index % 4]);
}

float GumbelFromBits(uint32_t bits24) {
  return static_cast<float>(-PortableLog(-PortableLog(UniformFromBits(bits24))));
}

float GumbelAt(const NoiseKey& key, uint32_t index) {
  return GumbelFromBits(NoiseBits(key, index / 4)[index % 4]);
}

}  // namespace paceline
