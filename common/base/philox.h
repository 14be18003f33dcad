// Counter-based randomness: Philox4x32-10 (Salmon et al., SC'11; constants of Random123).
//
// No stream state: a draw is a pure function of its key, so a replay, another batch or a replaced worker
// gives the same number. Who needs randomness keys it by (seed, choice, position, purpose): see NoiseKey.
#pragma once

#include <array>
#include <cstdint>

namespace paceline {

// Four 32-bit words from a 64-bit key and a 128-bit counter.
std::array<uint32_t, 4> Philox4x32(uint64_t key, std::array<uint32_t, 4> counter);

enum class NoisePurpose : uint32_t { kToken = 0 };

// What a draw of a token depends on, and nothing else.
struct NoiseKey {
  uint64_t seed = 0;
  uint32_t choice = 0;    // index of the choice within its prompt, from 0
  uint32_t position = 0;  // absolute position of the token that is drawn
  NoisePurpose purpose = NoisePurpose::kToken;
};

// 24 random bits for each of the four ids 4 * quad .. 4 * quad + 3: one Philox block serves them all, so a
// scan over a vocabulary asks once per quad.
std::array<uint32_t, 4> NoiseBits(const NoiseKey& key, uint32_t quad);

// Uniform in (0, 1), (bits + 1/2) / 2^24: never 0 and never 1. A double, since the half of the largest bits
// would round up to 1 in float. `index` is the vocabulary id.
double UniformAt(const NoiseKey& key, uint32_t index);

// Standard Gumbel noise, -log(-log(u)), computed with our own log in double so that every machine agrees.
// Below kGumbelBound = 25 ln 2: what a scan needs to skip ids that cannot win.
float GumbelAt(const NoiseKey& key, uint32_t index);
float GumbelFromBits(uint32_t bits24);
inline constexpr float kGumbelBound = 17.33f;

}  // namespace paceline
