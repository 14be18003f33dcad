#include "common/base/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace paceline {
namespace {

// Known answers of Random123's kat_vectors for philox4x32 with 10 rounds.
TEST(Philox, GivesTheKnownAnswers) {
  const auto zeros = Philox4x32(0, {0, 0, 0, 0});
  const auto ones = Philox4x32(0xFFFFFFFFFFFFFFFFull, {0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu});
  const auto pi = Philox4x32(0x299F31D0A4093822ull, {0x243F6A88u, 0x85A308D3u, 0x13198A2Eu, 0x03707344u});

  EXPECT_EQ(zeros, (std::array<uint32_t, 4>{0x6627E8D5u, 0xE169C58Du, 0xBC57AC4Cu, 0x9B00DBD8u}));
  EXPECT_EQ(ones, (std::array<uint32_t, 4>{0x408F276Du, 0x41C83B0Eu, 0xA20BC7C6u, 0x6D5451FDu}));
  EXPECT_EQ(pi, (std::array<uint32_t, 4>{0xD16CFE09u, 0x94FDCCEBu, 0x5001E420u, 0x24126EA1u}));
}

TEST(Philox, EachPartOfTheKeyMovesTheDraw) {
  const NoiseKey key{.seed = 7, .choice = 1, .position = 40};
  std::set<double> draws = {UniformAt(key, 3), UniformAt(key, 4), UniformAt({8, 1, 40}, 3),
                            UniformAt({7, 2, 40}, 3), UniformAt({7, 1, 41}, 3)};

  EXPECT_EQ(draws.size(), 5u);
}

TEST(Philox, UniformsAreOpenAndFlat) {
  constexpr int kDraws = 200000;
  int buckets[16] = {};
  for (int i = 0; i < kDraws; ++i) {
    const double u = UniformAt({.seed = 99, .choice = 0, .position = 5}, static_cast<uint32_t>(i));
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++buckets[static_cast<int>(u * 16)];
  }

  // Chi-square with 15 degrees of freedom: 37.7 is the 0.1 % point.
  double chi = 0;
  for (const int n : buckets) chi += (n - kDraws / 16.0) * (n - kDraws / 16.0) / (kDraws / 16.0);
  EXPECT_LT(chi, 37.7);
}

TEST(Philox, GumbelHasTheEulerMean) {
  double sum = 0;
  for (uint32_t i = 0; i < 100000; ++i) sum += GumbelAt({.seed = 3, .choice = 0, .position = 9}, i);

  EXPECT_NEAR(sum / 100000, 0.5772, 0.015);
}

}  // namespace
}  // namespace paceline
