#include "kernels/rmsnorm/rmsnorm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/common/elementwise_cases.h"
#include "kernels/rmsnorm/rmsnorm_ref.h"
#include "tests/kernels/kernel_test_support.h"

namespace paceline::kernels {
namespace {

// Sum of n/16 + 4 roundings on squares, halved by the square root; mean, eps, root, reciprocal and the two
// products add one each; the reference rounds its result once.
double RelativeBound(size_t n) { return (0.5 * static_cast<double>(n / 16 + 7) + 6) * kUnitRoundoff; }

TEST(RmsNorm, EqualsReferenceOverAllWidthsOnEveryInstructionSet) {
  constexpr size_t kRows = 3;
  for (size_t n : kWidthRemainders) {
    const size_t stride = n + 3;
    const std::vector<float> x = RandomFloats(kRows * stride, 1);
    const std::vector<float> weight = RandomFloats(n, 2);
    std::vector<float> wanted(kRows * n);
    RmsNormRef({x.data(), stride, kRows, n, weight.data(), 1e-5f, wanted.data(), n});
    std::vector<float> first;
    ForEachInstructionSet([&] {
      GuardedBuffer<float> y(kRows * n);
      RmsNorm({x.data(), stride, kRows, n, weight.data(), 1e-5f, y.data(), n});

      y.CheckGuards();
      const std::vector<float> got(y.data(), y.data() + y.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], wanted[i], RelativeBound(n) * std::abs(wanted[i])) << "n " << n << " value " << i;
      }
      if (first.empty()) first = got;
      ASSERT_TRUE(SameBits(first, got)) << "n " << n;
    });
  }
}

TEST(RmsNorm, ARowAloneAndInPlaceGivesTheSameBits) {
  constexpr size_t kWidth = 577;
  const std::vector<float> x = RandomFloats(4 * kWidth, 3);
  const std::vector<float> weight = RandomFloats(kWidth, 4);
  std::vector<float> together(x.size());
  RmsNorm({x.data(), kWidth, 4, kWidth, weight.data(), 1e-5f, together.data(), kWidth});

  std::vector<float> in_place(x.begin() + 2 * kWidth, x.begin() + 3 * kWidth);
  RmsNorm({in_place.data(), kWidth, 1, kWidth, weight.data(), 1e-5f, in_place.data(), kWidth});

  EXPECT_TRUE(SameBits({together.begin() + 2 * kWidth, together.begin() + 3 * kWidth}, in_place));
}

TEST(RmsNorm, EpsKeepsAZeroRowFinite) {
  const std::vector<float> zero(20, 0.0f);
  const std::vector<float> weight(20, 2.0f);
  std::vector<float> y(20, 1.0f);
  RmsNorm({zero.data(), 20, 1, 20, weight.data(), 1e-5f, y.data(), 20});

  EXPECT_TRUE(SameBits(y, zero));
}

TEST(RmsNorm, NanStaysInItsRow) {
  std::vector<float> x(34, 1.0f);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> weight(17, 1.0f);
  std::vector<float> y(34);
  RmsNorm({x.data(), 17, 2, 17, weight.data(), 0.0f, y.data(), 17});

  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[17], 1.0f);
}

TEST(RmsNorm, NoRowsOrNoWidthWriteNothing) {
  float value = 3;
  RmsNorm({&value, 1, 0, 1, &value, 0.0f, &value, 1});
  RmsNorm({&value, 1, 1, 0, &value, 0.0f, &value, 1});

  EXPECT_EQ(value, 3);
}

}  // namespace
}  // namespace paceline::kernels
