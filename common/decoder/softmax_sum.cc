#include "common/decoder/softmax_sum.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace paceline {
namespace {

constexpr size_t kLanes = 16;

// exp for x <= 0: x = n ln 2 + r, |r| <= ln 2 / 2, polynomial of degree 7 (Taylor), times 2^n by its bits.
// Below -87 the result would leave the normal range and counts as 0.
inline float ExpNonPositive(float x) {
  constexpr float kRoundToInteger = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the mantissa
  const float clamped = x < -87.0f ? -87.0f : x;
  const float n = (clamped * 1.44269504f + kRoundToInteger) - kRoundToInteger;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float scale = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : p * scale;
}

}  // namespace

double SoftmaxSum(std::span<const float> values, float max) {
  double lanes[kLanes] = {};
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    float terms[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) terms[lane] = ExpNonPositive(values[i + lane] - max);
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(terms[lane]);
  }
  for (size_t i = whole; i < values.size(); ++i) lanes[i - whole] += ExpNonPositive(values[i] - max);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace paceline
