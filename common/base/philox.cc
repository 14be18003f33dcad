#include "common/base/philox.h"

#include "common/base/portable_math.h"

namespace paceline {
namespace {

constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

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

float UniformAt(const NoiseKey& key, uint32_t index) {
  // One Philox block serves four neighbouring ids.
  const auto words =
      Philox4x32(key.seed, {index / 4, key.position, key.choice, static_cast<uint32_t>(key.purpose)});
  const uint32_t bits = words[index % 4] >> 8;
  return (static_cast<float>(bits) + 0.5f) * (1.0f / 16777216.0f);
}

float GumbelAt(const NoiseKey& key, uint32_t index) {
  const double u = UniformAt(key, index);
  return static_cast<float>(-PortableLog(-PortableLog(u)));
}

}  // namespace paceline
