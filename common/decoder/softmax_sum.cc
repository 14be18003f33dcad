#include "common/decoder/softmax_sum.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace paceline {
namespace {

constexpr size_t kLanes = 16;

// exp for x <= 0: x = n ln 2 + r, |r| <= ln 2 / 2, polynomial of degree 7 (Taylor), times 2^n by its bits.
// Below -87 the result would leave the normal range and counts as 0. By masks: a choice between two floats
// would become a branch, and the loop around it would not be vectorised.
inline float ExpNonPositive(float x) {
  constexpr float kRoundToInteger = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the mantissa
  const uint32_t in_range = -static_cast<uint32_t>(x >= -87.0f);
  const float t = std::bit_cast<float>(std::bit_cast<uint32_t>(x) & in_range);
  const float n = (t * 1.44269504f + kRoundToInteger) - kRoundToInteger;
  const float r = (t - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float scale = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p * scale) & in_range);
}

}  // namespace

double SoftmaxSum(std::span<const float> values, float max) {
  double lanes[kLanes] = {};
  const float* const from = values.data();
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    float terms[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) terms[lane] = ExpNonPositive(from[i + lane] - max);
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(terms[lane]);
  }
  for (size_t i = whole; i < values.size(); ++i) lanes[i - whole] += ExpNonPositive(values[i] - max);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace paceline
