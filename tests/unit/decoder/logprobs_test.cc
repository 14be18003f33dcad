#include "common/decoder/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/base/status.h"
#include "common/decoder/softmax_sum.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<float> RandomLogits(size_t size, float spread) {
  std::mt19937 random(static_cast<uint32_t>(size));
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(size);
  for (float& z : logits) z = normal(random);
  return logits;
}

// Bound: the polynomial's 2e-7 relative, and the rounding of z - max, at most 2^-24 of it, which exp turns
// into a relative error of the term.
TEST(SoftmaxSum, StaysWithinItsBoundOverAllRemainders) {
  for (const size_t size : {0u, 1u, 2u, 15u, 16u, 17u, 31u, 33u, 49152u}) {
    for (const float spread : {0.1f, 3.0f, 40.0f}) {
      const std::vector<float> logits = RandomLogits(size, spread);
      const float max = size == 0 ? 0 : *std::max_element(logits.begin(), logits.end());
      long double want = 0, bound = 0;
      for (const float z : logits) {
        const long double term = std::exp(static_cast<long double>(z) - max);
        want += term;
        bound += term * (2e-7L + std::abs(z - max) * 0x1p-24L) + 1.2e-38L;
      }
      EXPECT_LE(std::abs(SoftmaxSum(logits, max) - want), bound) << "size " << size << " spread " << spread;
    }
  }
}

TEST(SoftmaxSum, MaskedValuesAddNothing) {
  const float masked = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(SoftmaxSum(std::vector<float>{masked, 2.0f, masked}, 2.0f), 1.0);
}

TEST(Logprobs, AreTheLogOfTheSoftmaxOfTheRawRow) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const TokenLogprobs got = RawLogprobs(logits, 1, 2);

  EXPECT_NEAR(got.logprob, std::log(0.3), 1e-6);
  EXPECT_EQ(got.rank, 2u);
  ASSERT_EQ(got.top.size(), 2u);
  EXPECT_EQ(got.top[0].first, 0);
  EXPECT_EQ(got.top[1].first, 1);
  EXPECT_NEAR(got.top[0].second, std::log(0.5), 1e-6);
}

TEST(Logprobs, TheDrawnTokenHasTheSameFloatAmongTheBest) {
  const std::vector<float> logits = RandomLogits(1000, 2);
  const TokenLogprobs best = RawLogprobs(logits, 0, 20);
  for (const auto& [id, value] : best.top) EXPECT_EQ(RawLogprobs(logits, id, 0).logprob, value);
}

TEST(Logprobs, TiesListTheLowestIdFirstAndShareTheWorseRank) {
  const TokenLogprobs got = RawLogprobs(std::vector<float>{1, 3, 3, 2}, 2, 3);
  EXPECT_EQ(got.rank, 2u);
  EXPECT_THAT(got.top, ElementsAre(Pair(1, got.logprob), Pair(2, got.logprob), Pair(3, ::testing::_)));
}

TEST(Logprobs, NeverListMoreThanTheVocabulary) {
  EXPECT_EQ(RawLogprobs(std::vector<float>{1, 2}, 0, 20).top.size(), 2u);
}

TEST(Logprobs, B176_NanAndInfinityAreNamedWithTheirId) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), inf, -inf}) {
    std::vector<float> logits(50, 1.0f);
    logits[37] = bad;
    const Status status = CheckFinite(logits);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(Message(status)), HasSubstr("id 37 of 50"));
  }
  EXPECT_TRUE(CheckFinite(std::vector<float>(50, 3e38f)).ok());
}

}  // namespace
}  // namespace paceline
