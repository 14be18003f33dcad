// SimRandom: the simulator's only source of chance; the same seed gives the same run on every machine.
#pragma once

#include <cstdint>

#include "common/base/clock.h"

namespace paceline::sim {

inline uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9E3779B97F4A7C15ull + b * 0xD6E8FEB86659FD93ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : state_(Mix(seed, 0x5EED)) {}

  uint64_t Next() { return Mix(state_ += 0x9E3779B97F4A7C15ull, 1); }
  // Both ends included.
  uint64_t Between(uint64_t low, uint64_t high) { return low + Next() % (high - low + 1); }
  bool Chance(double p) { return static_cast<double>(Next() >> 11) * 0x1p-53 < p; }
  Duration Micros(uint64_t low, uint64_t high) { return std::chrono::microseconds(Between(low, high)); }
  template <typename T>
  T Pick(std::initializer_list<T> values) {
    return values.begin()[Next() % values.size()];
  }

 private:
  uint64_t state_;
};

}  // namespace paceline::sim
