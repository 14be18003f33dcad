// Matrix products against the double reference, and bit-equality over everything that must not matter:
// instruction set, row count, neighbours, threads, alignment of the weights.
#include "kernels/matmul/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/matmul/matmul_cases.h"
#include "kernels/matmul/matmul_ref.h"
#include "kernels/matmul/tile.h"
#include "tests/kernels/kernel_test_support.h"

namespace paceline::kernels {
namespace {

using ::testing::HasSubstr;

void PutHalf(std::byte* at, float value) {
  const uint16_t bits = FloatToHalf(value);
  std::memcpy(at, &bits, sizeof(bits));
}

// Random weights of any type: random bits in quantised blocks with moderate scales, normal numbers otherwise.
std::vector<std::byte> RandomWeights(DType dtype, size_t rows, size_t cols, uint32_t seed) {
  std::vector<std::byte> weights(rows * RowBytes(dtype, cols).value());
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const size_t width = Info(dtype).block_bytes;
  for (std::byte& byte : weights) byte = static_cast<std::byte>(random());
  for (size_t at = 0; at < weights.size(); at += width) {
    const float value = normal(random);
    const uint16_t bfloat = FloatToBFloat16(value);
    switch (dtype) {
      case DType::kF32:
        std::memcpy(&weights[at], &value, sizeof(value));
        break;
      case DType::kBF16:
        std::memcpy(&weights[at], &bfloat, sizeof(bfloat));
        break;
      case DType::kF16:
        PutHalf(&weights[at], value);
        break;
      case DType::kQ6_K:
        PutHalf(&weights[at + width - 2], value * 0.01f);
        break;
      case DType::kQ4_1:
      case DType::kQ5_1:
        PutHalf(&weights[at + 2], normal(random) * 0.1f);
        [[fallthrough]];
      default:
        PutHalf(&weights[at], value * 0.01f);
    }
  }
  return weights;
}

bool HasIntegerPath(DType dtype) {
  return dtype == DType::kQ4_0 || dtype == DType::kQ4_1 || dtype == DType::kQ8_0;
}

struct Problem {
  size_t num_rows;
  size_t x_stride;
  std::vector<float> x;
  std::vector<std::byte> weights;
  std::vector<float> bias;
  WeightMatrix w;

  Problem(DType dtype, size_t outputs, size_t inputs, size_t rows, uint32_t seed, size_t x_pad = 0)
      : num_rows(rows),
        x_stride(inputs + x_pad),
        x(RandomFloats(rows * x_stride, seed)),
        weights(RandomWeights(dtype, outputs, inputs, seed + 1)),
        bias(RandomFloats(outputs, seed + 2)),
        w{dtype, weights.data(), outputs, inputs} {}

  MatmulArgs Args(float* y, size_t y_stride) const {
    return {.x = x.data(),
            .x_stride = x_stride,
            .num_rows = num_rows,
            .w = w,
            .bias = bias.data(),
            .y = y,
            .y_stride = y_stride};
  }

  std::vector<float> Compute(ThreadPool& pool) const {
    std::vector<float> y(num_rows * w.rows);
    MatmulScratch scratch;
    Matmul(Args(y.data(), w.rows), scratch, pool);
    return y;
  }
};

// Roundings on the way of one term into the sum. Integer formats: one addition per run, then scales, minimum
// and bias; plain ones: one addition per 16 inputs, the tree of 4, the product and the bias. Two more for
// dequantised weights.
double RoundingsOf(const WeightMatrix& w) {
  if (HasIntegerPath(w.dtype)) return static_cast<double>(w.cols / kActivationRun) + 7;
  return static_cast<double>(w.cols / kReduceLanes) + 9;
}

void ExpectNearReference(const Problem& problem, const std::vector<float>& y) {
  const auto activations =
      HasIntegerPath(problem.w.dtype) ? ReferenceActivations::kInt8 : ReferenceActivations::kExact;
  const MatmulReference wanted = MatmulRef(problem.Args(nullptr, problem.w.rows), activations);
  for (size_t i = 0; i < y.size(); ++i) {
    const double bound = RoundingsOf(problem.w) * kUnitRoundoff * wanted.magnitude[i];
    ASSERT_NEAR(y[i], wanted.y[i], bound)
        << Name(problem.w.dtype) << " " << problem.w.rows << "x" << problem.w.cols << " value " << i;
  }
}

class MatmulTest : public ::testing::TestWithParam<DType> {
 protected:
  // Inputs that the type allows: single blocks, odd block counts, or remainders of the 16 lanes.
  std::vector<size_t> Inputs() const {
    const size_t block = Info(GetParam()).block_elements;
    if (block > 1) return {block, 2 * block, 3 * block, 7 * block};
    return {kPlainInputs.begin(), kPlainInputs.end()};
  }
  size_t SomeInputs() const { return IsQuantized(GetParam()) ? 3 * Info(GetParam()).block_elements : 100; }

  ThreadPool pool_{1};
};
INSTANTIATE_TEST_SUITE_P(Types, MatmulTest, ::testing::ValuesIn(kMatmulTypes),
                         [](const auto& type) { return std::string(Name(type.param)); });

TEST_P(MatmulTest, EqualsReferenceOverAllRemaindersOnEveryInstructionSet) {
  for (size_t inputs : Inputs()) {
    for (size_t outputs : kOutputRemainders) {
      const Problem problem(GetParam(), outputs, inputs, 5, static_cast<uint32_t>(inputs * 100 + outputs));
      std::vector<float> first;
      ForEachInstructionSet([&] {
        const std::vector<float> y = problem.Compute(pool_);
        if (first.empty()) {
          first = y;
          ExpectNearReference(problem, y);
        }
        ASSERT_TRUE(SameBits(first, y)) << outputs << "x" << inputs;
      });
    }
  }
}

TEST_P(MatmulTest, B001_ARowDoesNotDependOnItsNeighboursOrTheirNumber) {
  ForEachInstructionSet([&] {
    for (size_t rows : kRowRemainders) {
      const Problem problem(GetParam(), 35, SomeInputs(), rows, 7);
      const std::vector<float> together = problem.Compute(pool_);
      for (size_t r : {size_t{0}, rows / 2, rows - 1}) {
        MatmulArgs args = problem.Args(nullptr, 35);
        std::vector<float> alone(35);
        args.x += r * args.x_stride;
        args.num_rows = 1;
        args.y = alone.data();
        MatmulScratch scratch;
        Matmul(args, scratch, pool_);

        const std::vector<float> row(together.begin() + r * 35, together.begin() + (r + 1) * 35);
        ASSERT_TRUE(SameBits(row, alone)) << "row " << r << " of " << rows;
      }
    }
  });
}

TEST_P(MatmulTest, ThreadsDoNotChangeBits) {
  const Problem problem(GetParam(), 700, Info(GetParam()).block_elements == 1 ? 500 : 512, 3, 11);
  const std::vector<float> one = problem.Compute(pool_);
  for (int threads : {2, 3, 5}) {
    ThreadPool pool(threads);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(SameBits(one, problem.Compute(pool))) << threads << " threads";
  }
}

TEST_P(MatmulTest, WritesOnlyItsOutputsAndReadsUnalignedWeights) {
  ForEachInstructionSet([&] {
    const Problem problem(GetParam(), 19, SomeInputs(), 3, 13, /*x_pad=*/5);
    const std::vector<float> wanted = problem.Compute(pool_);
    GuardedBuffer<std::byte> weights(problem.weights.size(), 1);
    std::memcpy(weights.data(), problem.weights.data(), problem.weights.size());
    constexpr size_t kStride = 23;
    GuardedBuffer<float> y(3 * kStride);
    std::fill(y.data(), y.data() + y.size(), -77.0f);
    MatmulArgs args = problem.Args(y.data(), kStride);
    args.w.data = weights.data();
    MatmulScratch scratch;

    Matmul(args, scratch, pool_);

    y.CheckGuards();
    for (size_t r = 0; r < 3; ++r) {
      for (size_t o = 0; o < kStride; ++o) {
        ASSERT_EQ(y[r * kStride + o], o < 19 ? wanted[r * 19 + o] : -77.0f) << "row " << r << " output " << o;
      }
    }
  });
}

TEST_P(MatmulTest, NoRowsOrNoOutputsWriteNothing) {
  Problem problem(GetParam(), 4, SomeInputs(), 1, 17);
  float untouched = 5;
  MatmulArgs args = problem.Args(&untouched, 4);
  MatmulScratch scratch;
  args.num_rows = 0;
  Matmul(args, scratch, pool_);
  args.num_rows = 1;
  args.w.rows = 0;
  Matmul(args, scratch, pool_);

  EXPECT_EQ(untouched, 5);
}

// One bad activation must be seen in every output of its row and in no other row.
TEST_P(MatmulTest, B176_NanOrInfinityInARowIsNotAveragedAway) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    ForEachInstructionSet([&] {
      Problem problem(GetParam(), 17, SomeInputs(), 2, 19);
      problem.x[problem.x_stride + 1] = bad;

      const std::vector<float> y = problem.Compute(pool_);

      for (size_t o = 0; o < 17; ++o) {
        EXPECT_TRUE(std::isfinite(y[o])) << o;
        EXPECT_FALSE(std::isfinite(y[17 + o])) << o;
      }
    });
  }
}

// The bound of rounding activations to int8: half a step per activation. Ties the int8 law to the real
// product.
TEST(MatmulInt8, StaysWithinHalfAStepPerActivationOfTheExactProduct) {
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    const Problem problem(dtype, 24, 576, 2, 23);
    ThreadPool pool(1);
    const std::vector<float> y = problem.Compute(pool);
    const MatmulReference exact = MatmulRef(problem.Args(nullptr, 24), ReferenceActivations::kExact);
    // |x| of each run at its amax gives magnitude >= sum |w| amax / 2 * ...: recompute with amax for a sound
    // bound.
    Problem at_amax = problem;
    for (size_t begin = 0; begin < at_amax.x.size(); begin += kActivationRun) {
      float amax = 0;
      for (size_t i = begin; i < begin + kActivationRun; ++i) amax = std::max(amax, std::abs(problem.x[i]));
      for (size_t i = begin; i < begin + kActivationRun; ++i) at_amax.x[i] = amax;
    }
    const MatmulReference steps = MatmulRef(at_amax.Args(nullptr, 24), ReferenceActivations::kExact);
    for (size_t i = 0; i < y.size(); ++i) {
      const double bound = steps.magnitude[i] * (0.5 / 127 + RoundingsOf(problem.w) * kUnitRoundoff);
      EXPECT_NEAR(y[i], exact.y[i], bound) << Name(dtype) << " value " << i;
    }
  }
}

// Weights at the ends of their range with activations at theirs: where 16-bit sums would overflow.
TEST(MatmulInt8, ExtremeWeightsAndActivationsAreExactOnEveryInstructionSet) {
  struct Extreme {
    DType dtype;
    int byte;
    float weight;
    size_t header;
  };
  for (const Extreme& extreme : {Extreme{DType::kQ8_0, 0x80, -128, 2}, Extreme{DType::kQ8_0, 0x7f, 127, 2},
                                 Extreme{DType::kQ4_0, 0x00, -8, 2}, Extreme{DType::kQ4_0, 0xff, 7, 2},
                                 Extreme{DType::kQ4_1, 0xff, 15, 4}}) {
    for (float sign : {1.0f, -1.0f}) {
      Problem problem(extreme.dtype, 16, 64, 1, 1);
      const size_t width = Info(extreme.dtype).block_bytes;
      for (size_t at = 0; at < problem.weights.size(); at += width) {
        std::memset(&problem.weights[at], extreme.byte, width);
        PutHalf(&problem.weights[at], 1.0f);
        if (extreme.header == 4) PutHalf(&problem.weights[at + 2], 0.0f);
      }
      problem.x.assign(problem.x.size(), sign * 127.0f);  // scale 1, so the product is an integer
      problem.bias.assign(16, 0.0f);
      ForEachInstructionSet([&] {
        ThreadPool pool(1);
        for (float y : problem.Compute(pool))
          ASSERT_EQ(y, sign * 127.0f * extreme.weight * 64) << Name(extreme.dtype);
      });
    }
  }
}

TEST(MatmulInt8, ZeroAndTinyRunsGiveZero) {
  Problem problem(DType::kQ4_1, 5, 64, 1, 29);
  problem.bias.assign(5, 0.0f);
  ThreadPool pool(1);
  for (float value : {0.0f, 1e-38f, -1e-42f}) {
    problem.x.assign(problem.x.size(), value);
    for (float y : problem.Compute(pool)) EXPECT_EQ(y, 0.0f);
  }
}

TEST(QuantizeRow, TiesGoToEvenAndSumsAreOfTheRoundedValues) {
  ForEachInstructionSet([] {
    std::vector<float> x(32, 0.0f);
    x[0] = 127.0f;  // scale 1
    x[1] = 0.5f;
    x[2] = 1.5f;
    x[3] = -2.5f;
    x[4] = -126.6f;
    GuardedBuffer<int8_t> q(32);
    float scale = 0;
    int32_t sum = 0;
    QuantizeRow(x.data(), 32, 0, {q.data(), &scale, &sum, 1});

    EXPECT_EQ(scale, 1.0f);
    EXPECT_EQ(q[0], 127);
    EXPECT_EQ(q[1], 0);
    EXPECT_EQ(q[2], 2);
    EXPECT_EQ(q[3], -2);
    EXPECT_EQ(q[4], -127);
    EXPECT_EQ(sum, 0);
    q.CheckGuards();
  });
}

// Every half-precision scale, subnormal and infinite ones included, widens the same on every instruction set.
TEST(MatmulInt8, EveryHalfScaleIsReadAlike) {
  constexpr size_t kOutputs = 65536;
  Problem problem(DType::kQ8_0, kOutputs, 32, 1, 31);
  for (size_t o = 0; o < kOutputs; ++o) {
    const auto bits = static_cast<uint16_t>(o);
    std::memset(&problem.weights[o * 34], 1, 34);
    std::memcpy(&problem.weights[o * 34], &bits, sizeof(bits));
  }
  problem.x.assign(32, 0.0f);
  problem.x[0] = 127.0f;
  ForEachInstructionSet([&] {
    ThreadPool pool(1);
    std::vector<float> y(kOutputs);
    MatmulScratch scratch;
    MatmulArgs args = problem.Args(y.data(), kOutputs);
    args.bias = nullptr;
    Matmul(args, scratch, pool);
    for (size_t o = 0; o < kOutputs; ++o) {
      const float scale = HalfToFloat(static_cast<uint16_t>(o));
      if (std::isnan(scale)) {
        ASSERT_TRUE(std::isnan(y[o])) << o;
      } else {
        ASSERT_EQ(y[o], scale * 127.0f) << o;
      }
    }
  });
}

TEST(MatmulScratch, ReserveLeavesNothingToGrow) {
  const Problem problem(DType::kQ5_1, 40, 64, 4, 37);
  ThreadPool pool(2);
  MatmulScratch scratch;
  scratch.Reserve(4, 64, pool.num_threads());
  std::vector<float> y(160);
  Matmul(problem.Args(y.data(), 40), scratch, pool);

  EXPECT_TRUE(SameBits(y, problem.Compute(pool)));
}

TEST(CheckMatmulWeights, RefusesTypesWithoutAKernelAndBrokenBlocks) {
  const Status integer = CheckMatmulWeights({DType::kI32, nullptr, 4, 32});
  EXPECT_EQ(integer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(integer)), HasSubstr("I32"));

  EXPECT_FALSE(CheckMatmulWeights({DType::kQ4_1, nullptr, 4, 33}).ok());
  EXPECT_FALSE(CheckMatmulWeights({DType::kF32, nullptr, 4, size_t{1} << 40}).ok());
  EXPECT_TRUE(CheckMatmulWeights({DType::kQ4_1, nullptr, 4, 576}).ok());
}

}  // namespace
}  // namespace paceline::kernels
