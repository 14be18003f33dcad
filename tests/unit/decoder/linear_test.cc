// Linear against a sum in double over dequantised weights, with the bound that 15-bit activations leave.
#include "common/decoder/linear.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/dequantize/dequantize.h"
#include "tests/support/tiny_llama.h"

namespace paceline {
namespace {

constexpr size_t kIn = 96, kOut = 37;

std::vector<float> Random(size_t count, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

class LinearOfType : public ::testing::TestWithParam<DType> {
 protected:
  LinearOfType() : bytes_(testing::QuantizeRows(GetParam(), Random(kOut * kIn, 0.2f, 1), kIn)) {
    linear_.weight = {GetParam(), reinterpret_cast<const std::byte*>(bytes_.data()), kOut, kIn};
    weights_.resize(kOut * kIn);
    const size_t row_bytes = *RowBytes(GetParam(), kIn);
    for (size_t row = 0; row < kOut; ++row) {
      EXPECT_TRUE(
          kernels::DequantizeRow(GetParam(), linear_.weight.data + row * row_bytes, &weights_[row * kIn], kIn)
              .ok());
    }
  }

  std::vector<float> Run(const std::vector<float>& x, int num_threads = 1) {
    const size_t rows = x.size() / kIn;
    std::vector<float> in = x, out(2 * rows * kOut, -7.0f);
    in.resize(2 * rows * kIn, -7.0f);
    kernels::ThreadPool pool(num_threads);
    SplitInputFor({&linear_}, in.data(), rows);
    RunLinear(linear_, in.data(), rows, out.data(), scratch_, pool);
    out.resize(rows * kOut);
    return out;
  }

  std::string bytes_;
  std::vector<float> weights_;
  Linear linear_;
  kernels::MatmulScratch scratch_;
};

// Per run of 32: rounding leaves 2^-16 of its largest activation (two planes of 7 bits and sign, half a step)
// to meet each weight; the float operations after it are few.
TEST_P(LinearOfType, KeepsFifteenBitsOfActivationsWithOutliers) {
  linear_.bias = Random(kOut, 1, 3);
  std::vector<float> x = Random(5 * kIn, 1, 2);
  for (size_t row = 0; row < 5; ++row) x[row * kIn + 40] = 80.0f;
  const std::vector<float> got = Run(x);
  for (size_t row = 0; row < 5; ++row) {
    for (size_t o = 0; o < kOut; ++o) {
      double want = linear_.bias[o], bound = 0;
      for (size_t k = 0; k < kIn; ++k) {
        float amax = 0;
        for (size_t i = k / 32 * 32; i < k / 32 * 32 + 32; ++i)
          amax = std::max(amax, std::abs(x[row * kIn + i]));
        const double w = weights_[o * kIn + k];
        want += w * x[row * kIn + k];
        bound += std::abs(w) * (amax * 0x1p-15 + std::abs(x[row * kIn + k]) * 0x1p-20);
      }
      EXPECT_NEAR(got[row * kOut + o], want, bound + std::abs(want) * 0x1p-20)
          << "row " << row << " out " << o;
    }
  }
}

TEST_P(LinearOfType, ARowIsTheSameAloneAmongOthersAndOnMoreThreads) {
  const std::vector<float> x = Random(9 * kIn, 1, 4);
  const std::vector<float> together = Run(x, 3);
  for (size_t row = 0; row < 9; ++row) {
    const std::vector<float> alone = Run({x.begin() + row * kIn, x.begin() + (row + 1) * kIn});
    for (size_t o = 0; o < kOut; ++o) ASSERT_EQ(together[row * kOut + o], alone[o]) << "row " << row;
  }
}

TEST_P(LinearOfType, ZeroRowsGiveTheBiasAndBadOnesNaN) {
  linear_.bias.assign(kOut, 2.5f);
  EXPECT_THAT(Run(std::vector<float>(kIn, 0.0f)), ::testing::Each(2.5f));

  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(2 * kIn, 1.0f);
    x[50] = bad;
    const std::vector<float> got = Run(x);
    for (size_t o = 0; o < kOut; ++o) {
      EXPECT_FALSE(std::isfinite(got[o])) << "out " << o;
      EXPECT_TRUE(std::isfinite(got[kOut + o])) << "out " << o;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WeightTypes, LinearOfType,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0,
                                           DType::kQ4_1),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace paceline
