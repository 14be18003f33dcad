#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/rope/rope_ref.h"
#include "tests/kernels/kernel_test_support.h"

namespace paceline::kernels {
namespace {

std::vector<double> InvFreq(size_t pairs, double base = 10000.0) {
  std::vector<double> inv_freq(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    inv_freq[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs));
  }
  return inv_freq;
}

class RopeTest : public ::testing::TestWithParam<RopeLayout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, RopeTest, ::testing::Values(RopeLayout::kHalves, RopeLayout::kInterleaved));

TEST_P(RopeTest, EqualsReferenceForFullAndPartialRotation) {
  const std::vector<uint32_t> positions = {0, 1, 7, 511, 1999};
  for (size_t head_dim : {2, 6, 64, 80}) {
    for (size_t pairs : {head_dim / 2, head_dim / 2 - 1}) {
      constexpr size_t kHeads = 3;
      const size_t stride = kHeads * head_dim + 1;
      const std::vector<double> inv_freq = InvFreq(pairs);
      const std::vector<float> x = RandomFloats(positions.size() * stride, 1);
      std::vector<float> wanted = x;
      ApplyRopeRef({wanted.data(), stride, kHeads, head_dim, positions}, inv_freq, 1.2, GetParam());
      RopeTable table(inv_freq, 1.2);
      table.Prepare(2000);
      std::vector<float> got = x;
      ApplyRope({got.data(), stride, kHeads, head_dim, positions}, table, GetParam());

      // cos and sin round once, products and sum once each; |a| and |b| are below 6 and scaled by 1.2.
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 4 * kUnitRoundoff * 1.2 * 12) << i;
    }
  }
}

TEST_P(RopeTest, LeavesElementsBeyondTheRotaryPartAndThePaddingAlone) {
  RopeTable table(InvFreq(2));
  table.Prepare(10);
  std::vector<float> x = RandomFloats(7, 3);
  const std::vector<float> before = x;
  const std::vector<uint32_t> positions = {9};
  ApplyRope({x.data(), 7, 1, 6, positions}, table, GetParam());

  EXPECT_NE(x[0], before[0]);
  for (size_t i = 4; i < 7; ++i) EXPECT_EQ(x[i], before[i]);
}

TEST_P(RopeTest, PositionZeroTurnsNothing) {
  RopeTable table(InvFreq(4));
  table.Prepare(1);
  std::vector<float> x = RandomFloats(8, 4);
  const std::vector<float> before = x;
  const std::vector<uint32_t> positions = {0};
  ApplyRope({x.data(), 8, 1, 8, positions}, table, GetParam());

  EXPECT_EQ(x, before);
}

TEST(RopeTable, GrowingKeepsWhatIsThereAndEqualsOneStep) {
  RopeTable grown(InvFreq(8));
  grown.Prepare(3);
  grown.Prepare(50);
  grown.Prepare(10);  // never shrinks
  RopeTable whole(InvFreq(8));
  whole.Prepare(50);

  ASSERT_EQ(grown.num_positions(), 50u);
  for (size_t pos = 0; pos < 50; ++pos) {
    for (size_t i = 0; i < 8; ++i) {
      ASSERT_EQ(grown.Cos(pos)[i], whole.Cos(pos)[i]);
      ASSERT_EQ(grown.Sin(pos)[i], whole.Sin(pos)[i]);
    }
  }
}

// Far positions: an angle in float32 would be wrong in the third digit here.
TEST(RopeTable, FarPositionsAreAsExactAsNearOnes) {
  RopeTable table(InvFreq(4, 500000.0));
  table.Prepare(131072);
  const std::vector<double> inv_freq = InvFreq(4, 500000.0);
  for (size_t pos : {131071, 99991}) {
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(table.Cos(pos)[i], std::cos(static_cast<double>(pos) * inv_freq[i]), 1.01 * kUnitRoundoff);
      EXPECT_NEAR(table.Sin(pos)[i], std::sin(static_cast<double>(pos) * inv_freq[i]), 1.01 * kUnitRoundoff);
    }
  }
}

TEST(RopeDeathTest, RefusesPositionsThatWereNotPrepared) {
  RopeTable table(InvFreq(1));
  table.Prepare(5);
  std::vector<float> x(2);
  const std::vector<uint32_t> positions = {5};
  EXPECT_DEATH(ApplyRope({x.data(), 2, 1, 2, positions}, table, RopeLayout::kHalves), "not prepared");
}

}  // namespace
}  // namespace paceline::kernels
