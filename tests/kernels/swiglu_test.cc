#include "kernels/swiglu/swiglu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/common/elementwise_cases.h"
#include "kernels/swiglu/swiglu_ref.h"
#include "tests/kernels/kernel_test_support.h"

namespace paceline::kernels {
namespace {

// exp is good to 4e-7; in silu it enters weighted by exp / (1 + exp) <= 1. Sum, division and product round
// once each.
constexpr double kRelativeBound = 4e-7 + 3 * kUnitRoundoff;
// exp below the smallest normal float is 0: such results differ by less than this.
constexpr double kAbsoluteBound = 1e-36;

TEST(SwiGlu, EqualsReferenceOverAllWidthsOnEveryInstructionSet) {
  for (size_t n : kWidthRemainders) {
    const std::vector<float> gate = RandomFloats(n, 1, 4.0f);
    const std::vector<float> up = RandomFloats(n, 2);
    std::vector<double> wanted(n);
    SwiGluRef(gate.data(), up.data(), wanted.data(), n);
    std::vector<float> first;
    ForEachInstructionSet([&] {
      GuardedBuffer<float> y(n);
      SwiGlu(gate.data(), up.data(), y.data(), n);

      y.CheckGuards();
      const std::vector<float> got(y.data(), y.data() + n);
      for (size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(got[i], wanted[i], kRelativeBound * std::abs(wanted[i]) + kAbsoluteBound)
            << "gate " << gate[i];
      }
      if (first.empty()) first = got;
      ASSERT_TRUE(SameBits(first, got));
    });
  }
}

// The whole range of the exponential, in steps that hit every power of two and both ends.
TEST(SwiGlu, ExponentialIsAccurateAndTheSameFromEndToEnd) {
  std::vector<float> gate;
  for (int i = -110 * 128; i <= 110 * 128; ++i) gate.push_back(static_cast<float>(i) / 128.0f + 1e-4f);
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<double> wanted(gate.size());
  SwiGluRef(gate.data(), up.data(), wanted.data(), gate.size());
  std::vector<float> first;
  ForEachInstructionSet([&] {
    std::vector<float> y(gate.size());
    SwiGlu(gate.data(), up.data(), y.data(), y.size());

    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], wanted[i], kRelativeBound * std::abs(wanted[i]) + kAbsoluteBound)
          << "gate " << gate[i];
    }
    if (first.empty()) first = y;
    ASSERT_TRUE(SameBits(first, y));
  });
}

TEST(SwiGlu, SpecialValuesAreThoseOfTheFormula) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ForEachInstructionSet([&] {
    const std::vector<float> gate = {inf, -inf, nan, 0.0f, 1.0f, -200.0f};
    const std::vector<float> up = {1.0f, 1.0f, 1.0f, 1.0f, nan, 1.0f};
    std::vector<float> y(gate.size());
    SwiGlu(gate.data(), up.data(), y.data(), y.size());

    EXPECT_EQ(y[0], inf);
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(y[3], 0.0f);
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ(y[5], 0.0f);
  });
}

TEST(SwiGlu, AnElementDoesNotDependOnItsPlaceAndOutputMayBeAnInput) {
  const std::vector<float> gate = RandomFloats(77, 5);
  const std::vector<float> up = RandomFloats(77, 6);
  std::vector<float> y(77);
  SwiGlu(gate.data(), up.data(), y.data(), 77);
  std::vector<float> in_place = gate;
  SwiGlu(in_place.data(), up.data(), in_place.data(), 77);
  EXPECT_TRUE(SameBits(y, in_place));

  for (size_t i = 0; i < 77; ++i) {
    float alone = 0;
    SwiGlu(&gate[i], &up[i], &alone, 1);
    EXPECT_EQ(alone, y[i]) << i;
  }
}

}  // namespace
}  // namespace paceline::kernels
