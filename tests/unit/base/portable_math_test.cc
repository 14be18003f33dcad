#include "common/base/portable_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace paceline {
namespace {

double RelativeError(double found, long double wanted) {
  if (wanted == 0) return std::fabs(found);
  return static_cast<double>(std::fabs((static_cast<long double>(found) - wanted) / wanted));
}

TEST(PortableMath, ExpAgreesWithLongDoubleLibm) {
  for (double x = -700; x < 700; x += 0.37) EXPECT_LT(RelativeError(PortableExp(x), expl(x)), 1e-14) << x;
}

TEST(PortableMath, ExpHasItsEdges) {
  EXPECT_EQ(PortableExp(0), 1.0);
  EXPECT_EQ(PortableExp(-800), 0.0);
  EXPECT_EQ(PortableExp(800), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(PortableExp(std::nan(""))));
}

TEST(PortableMath, LogAgreesWithLongDoubleLibm) {
  for (double x = 1e-300; x < 1e300; x *= 1.7) EXPECT_LT(RelativeError(PortableLog(x), logl(x)), 1e-14) << x;
  for (double x = 0.9; x < 1.1; x += 0.00173) EXPECT_LT(RelativeError(PortableLog(x), logl(x)), 1e-13) << x;
}

TEST(PortableMath, LogHasItsEdges) {
  EXPECT_EQ(PortableLog(1), 0.0);
  EXPECT_EQ(PortableLog(0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(PortableLog(-1)));
  EXPECT_LT(RelativeError(PortableLog(5e-324), logl(static_cast<long double>(5e-324))), 1e-14);
}

TEST(PortableMath, SineAndCosineAgreeOverAllRopeAngles) {
  for (double x = -3; x < 140000; x += 0.013 + std::fabs(x) * 0.01) {
    EXPECT_NEAR(PortableSin(x), static_cast<double>(sinl(x)), 4e-15) << x;
    EXPECT_NEAR(PortableCos(x), static_cast<double>(cosl(x)), 4e-15) << x;
  }
}

}  // namespace
}  // namespace paceline
