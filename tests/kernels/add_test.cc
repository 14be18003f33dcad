#include "kernels/add/add.h"

#include <gtest/gtest.h>

#include "kernels/common/elementwise_cases.h"
#include "tests/kernels/kernel_test_support.h"

namespace paceline::kernels {
namespace {

TEST(Add, AddsEachElementAndNothingElse) {
  for (size_t n : kWidthRemainders) {
    const std::vector<float> a = RandomFloats(n, 1);
    const std::vector<float> b = RandomFloats(n, 2);
    GuardedBuffer<float> y(n);
    Add(a.data(), b.data(), y.data(), n);

    y.CheckGuards();
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], a[i] + b[i]);
  }
}

TEST(Add, OutputMayBeEitherInput) {
  const std::vector<float> a = RandomFloats(33, 3);
  const std::vector<float> b = RandomFloats(33, 4);
  std::vector<float> wanted(33), into_a = a, into_b = b;
  Add(a.data(), b.data(), wanted.data(), 33);
  Add(into_a.data(), b.data(), into_a.data(), 33);
  Add(a.data(), into_b.data(), into_b.data(), 33);

  EXPECT_TRUE(SameBits(wanted, into_a));
  EXPECT_TRUE(SameBits(wanted, into_b));
}

}  // namespace
}  // namespace paceline::kernels
