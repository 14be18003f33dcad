// The noise under every draw: range, and that the largest random words stay inside it.
#include <cmath>

#include "common/base/philox.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(GumbelNoise, IsFiniteForTheSmallestAndTheLargestBits) {
  EXPECT_NEAR(GumbelFromBits(0), -std::log(25 * std::log(2.0)), 1e-6);
  EXPECT_NEAR(GumbelFromBits(0xFFFFFF), 25 * std::log(2.0), 1e-5);
  EXPECT_LT(GumbelFromBits(0xFFFFFF), kGumbelBound);
}

TEST(GumbelNoise, IsThatOfItsUniform) {
  const NoiseKey key{.seed = 11, .choice = 2, .position = 77};
  for (uint32_t id = 0; id < 1000; ++id) {
    const double u = UniformAt(key, id);
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    EXPECT_NEAR(GumbelAt(key, id), -std::log(-std::log(u)), 2e-6) << "id " << id;
  }
}

TEST(GumbelNoise, DiffersBySeedChoicePositionAndId) {
  const NoiseKey key{.seed = 1, .choice = 0, .position = 5};
  const float here = GumbelAt(key, 3);

  EXPECT_NE(here, GumbelAt({.seed = 2, .choice = 0, .position = 5}, 3));
  EXPECT_NE(here, GumbelAt({.seed = 1, .choice = 1, .position = 5}, 3));
  EXPECT_NE(here, GumbelAt({.seed = 1, .choice = 0, .position = 6}, 3));
  EXPECT_NE(here, GumbelAt(key, 4));
  EXPECT_EQ(here, GumbelAt(key, 3));
}

}  // namespace
}  // namespace paceline
