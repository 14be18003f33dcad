#include "common/tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace paceline {
namespace {

TEST(DType, RowsAreWholeBlocks) {
  EXPECT_EQ(RowBytes(DType::kQ4_1, 576).value(), 360u);
  EXPECT_EQ(RowBytes(DType::kF16, 3).value(), 6u);
  EXPECT_FALSE(RowBytes(DType::kQ6_K, 576).ok());
  EXPECT_FALSE(RowBytes(DType::kF32, ~0ull).ok());
}

TEST(DType, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
    } else {
      EXPECT_EQ(FloatToHalf(value), bits);
    }
  }
}

TEST(DType, HalvesRoundToNearestEven) {
  EXPECT_EQ(FloatToHalf(1.0f + 1.0f / 2048), 0x3C00);  // halfway, to even
  EXPECT_EQ(FloatToHalf(1.0f + 3.0f / 2048), 0x3C02);  // halfway, to even
  EXPECT_EQ(FloatToHalf(1.0f + 1.1f / 2048), 0x3C01);
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7C00);
  EXPECT_EQ(FloatToHalf(std::ldexp(1.0f, -25)), 0x0000);  // halfway between 0 and the smallest, to even
  EXPECT_EQ(FloatToHalf(std::ldexp(1.5f, -25)), 0x0001);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xFC00);
}

TEST(DType, BFloat16RoundsToNearestEven) {
  EXPECT_EQ(FloatToBFloat16(1.0f), 0x3F80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 1.0f / 256), 0x3F80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 3.0f / 256), 0x3F82);
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(std::nanf("")))));
}

}  // namespace
}  // namespace paceline
