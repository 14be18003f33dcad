#include "kernels/argmax/argmax.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/argmax/argmax_ref.h"
#include "kernels/common/elementwise_cases.h"
#include "tests/kernels/kernel_test_support.h"

namespace paceline::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ArgMax, EqualsReferenceWithTheMaximumAtEveryPlace) {
  ForEachInstructionSet([] {
    for (size_t n : kWidthRemainders) {
      std::vector<float> logits = RandomFloats(n, 1);
      ASSERT_EQ(ArgMax(logits.data(), n), ArgMaxRef(logits.data(), n));
      for (size_t at = 0; at < n; ++at) {
        const float before = logits[at];
        logits[at] = 100.0f;
        ASSERT_EQ(ArgMax(logits.data(), n), static_cast<int64_t>(at)) << "n " << n;
        logits[at] = before;
      }
    }
  });
}

TEST(ArgMax, OfEqualLogitsTheLowestIdWins) {
  ForEachInstructionSet([] {
    std::vector<float> logits(50, -1.0f);
    for (size_t at : {40, 20, 19, 3}) {
      logits[at] = 2.0f;
      EXPECT_EQ(ArgMax(logits.data(), logits.size()), static_cast<int64_t>(at));
    }
    const std::vector<float> zeros = {-1.0f, -0.0f, 0.0f};
    EXPECT_EQ(ArgMax(zeros.data(), zeros.size()), 1);
  });
}

TEST(ArgMax, B176_FindsNanAtEveryPlace) {
  ForEachInstructionSet([] {
    for (size_t n : kWidthRemainders) {
      std::vector<float> logits = RandomFloats(n, 2);
      for (size_t at = 0; at < n; ++at) {
        const float before = logits[at];
        logits[at] = kNan;
        ASSERT_EQ(ArgMax(logits.data(), n), kArgMaxNan) << "n " << n << " at " << at;
        logits[at] = -kNan;
        ASSERT_EQ(ArgMax(logits.data(), n), kArgMaxNan) << "n " << n << " at " << at;
        logits[at] = before;
      }
    }
  });
}

TEST(ArgMax, InfinitiesAreOrdinaryValues) {
  ForEachInstructionSet([] {
    std::vector<float> logits(20, -kInf);
    EXPECT_EQ(ArgMax(logits.data(), 20), 0);
    logits[17] = -1e30f;
    EXPECT_EQ(ArgMax(logits.data(), 20), 17);
    logits[18] = kInf;
    EXPECT_EQ(ArgMax(logits.data(), 20), 18);
  });
}

}  // namespace
}  // namespace paceline::kernels
