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

// Uniform in (0, 1): 24 bits, never 0 and never 1. `index` is the vocabulary id.
float UniformAt(const NoiseKey& key, uint32_t index);

// Standard Gumbel noise, -log(-log(u)), computed with our own log in double so that every machine agrees.
float GumbelAt(const NoiseKey& key, uint32_t index);

}  // namespace paceline
