#include "kernels/dequantize/dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/shared_data.h"

namespace paceline::kernels {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

DType DTypeNamed(const std::string& name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (Name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  ADD_FAILURE() << "no dtype " << name;
  return DType::kF32;
}

// One block of each type, with the values of ggml's own decoders printed to 9 digits. Bound: the three
// float32 operations of a formula round once each relative to its largest term, and the printed digits add
// half an ulp; terms are at most d*63*31 with |d| around 0.1, so 4 ulp of the largest value in the block
// cover it.
TEST(Dequantize, EveryTypeEqualsGgmlsValues) {
  if (testing::SharedDir().empty()) GTEST_SKIP() << "no shared data folder beside the repository";
  const auto vectors =
      nlohmann::json::parse(testing::ReadFileOrDie(testing::SharedDir() + "/formats/gguf_vectors.json"));
  int types = 0;
  for (const auto& [name, vector] : vectors.items()) {
    if (name == "note") continue;
    ++types;
    SCOPED_TRACE(name);
    const DType dtype = DTypeNamed(name);
    const auto block = FromHex(vector["block"].get<std::string>());
    const auto wanted = vector["values"].get<std::vector<double>>();
    ASSERT_EQ(block.size(), Info(dtype).block_bytes);
    ASSERT_EQ(wanted.size(), Info(dtype).block_elements);
    double largest = 0;
    for (const double value : wanted) largest = std::max(largest, std::abs(value));
    const double bound = 4 * std::numeric_limits<float>::epsilon() * largest;

    std::vector<float> values(wanted.size());
    ASSERT_TRUE(DequantizeRow(dtype, block.data(), values.data(), values.size()).ok());

    for (size_t e = 0; e < wanted.size(); ++e) EXPECT_NEAR(values[e], wanted[e], bound) << "element " << e;
  }
  EXPECT_EQ(types, 13);
}

TEST(Dequantize, RowsOfSeveralBlocksDecodeBlockByBlock) {
  // Two Q8_0 blocks, d = 1 and d = 2, with an odd start address.
  std::vector<std::byte> bytes(1 + 2 * 34);
  bytes[2] = std::byte{0x3C};
  bytes[1 + 34 + 1] = std::byte{0x40};
  for (int e = 0; e < 32; ++e) {
    bytes[1 + 2 + e] = static_cast<std::byte>(e - 16);
    bytes[1 + 34 + 2 + e] = static_cast<std::byte>(e - 16);
  }
  std::vector<float> values(65, 77.0f);

  ASSERT_TRUE(DequantizeRow(DType::kQ8_0, bytes.data() + 1, values.data(), 64).ok());

  for (int e = 0; e < 32; ++e) {
    EXPECT_EQ(values[e], static_cast<float>(e - 16));
    EXPECT_EQ(values[32 + e], static_cast<float>(2 * (e - 16)));
  }
  EXPECT_EQ(values[64], 77.0f) << "wrote past the row";
}

TEST(Dequantize, PlainFloatsPassThroughExactly) {
  const std::vector<float> numbers = {0.0f, -0.0f, 1.0f, 65504.0f, -6.103515625e-05f, 5.9604645e-08f};
  std::vector<uint16_t> halves;
  std::vector<uint16_t> bfloats;
  for (const float number : numbers) {
    halves.push_back(FloatToHalf(number));
    bfloats.push_back(FloatToBFloat16(number));
  }
  std::vector<float> values(numbers.size());

  ASSERT_TRUE(
      DequantizeRow(DType::kF32, reinterpret_cast<const std::byte*>(numbers.data()), values.data(), 6).ok());
  EXPECT_EQ(values, numbers);
  ASSERT_TRUE(
      DequantizeRow(DType::kF16, reinterpret_cast<const std::byte*>(halves.data()), values.data(), 6).ok());
  EXPECT_EQ(values, numbers);
  ASSERT_TRUE(
      DequantizeRow(DType::kBF16, reinterpret_cast<const std::byte*>(bfloats.data()), values.data(), 6).ok());
  EXPECT_EQ(values[2], 1.0f);
}

TEST(Dequantize, SmallestMxfp4ScalesAreSubnormal) {
  for (const int exponent : {0, 1, 2, 127, 254}) {
    std::vector<std::byte> block(17, std::byte{0x11});  // every element 1 * 2^(exponent - 128)
    block[0] = static_cast<std::byte>(exponent);
    std::vector<float> values(32);

    ASSERT_TRUE(DequantizeRow(DType::kMXFP4, block.data(), values.data(), 32).ok());

    EXPECT_EQ(values[0], std::ldexp(1.0f, exponent - 128)) << exponent;
    EXPECT_EQ(values[31], values[0]);
  }
}

TEST(Dequantize, RefusesPartBlocksAndTypesThatAreNoWeights) {
  std::vector<std::byte> bytes(256);
  std::vector<float> values(64);

  EXPECT_THAT(Message(DequantizeRow(DType::kQ4_1, bytes.data(), values.data(), 33)),
              HasSubstr("whole blocks"));
  EXPECT_THAT(Message(DequantizeRow(DType::kI64, bytes.data(), values.data(), 8)), HasSubstr("I64"));
  EXPECT_FALSE(CanDequantize(DType::kF64));
  EXPECT_TRUE(CanDequantize(DType::kIQ4_XS));
  EXPECT_TRUE(DequantizeRow(DType::kQ4_1, bytes.data(), values.data(), 0).ok());
}

}  // namespace
}  // namespace paceline::kernels
