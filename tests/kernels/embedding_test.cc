#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include "kernels/dequantize/dequantize.h"
#include "tests/kernels/kernel_test_support.h"

namespace paceline::kernels {
namespace {

TEST(EmbeddingGather, CopiesTheRowsOfTheIdsInOrder) {
  constexpr size_t kVocab = 5, kWidth = 32;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_1}) {
    const size_t row_bytes = RowBytes(dtype, kWidth).value();
    std::vector<std::byte> table(kVocab * row_bytes);
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::byte>(i * 7 % 60);
    const std::vector<uint32_t> ids = {4, 0, 4, 2};
    constexpr size_t kStride = kWidth + 3;
    GuardedBuffer<float> out(ids.size() * kStride);
    std::fill(out.data(), out.data() + out.size(), -1.0f);

    EmbeddingGather({dtype, table.data(), kVocab, kWidth}, ids, out.data(), kStride);

    out.CheckGuards();
    for (size_t r = 0; r < ids.size(); ++r) {
      std::vector<float> wanted(kWidth);
      ASSERT_TRUE(DequantizeRow(dtype, table.data() + ids[r] * row_bytes, wanted.data(), kWidth).ok());
      for (size_t i = 0; i < kStride; ++i) {
        ASSERT_EQ(out[r * kStride + i], i < kWidth ? wanted[i] : -1.0f)
            << Name(dtype) << " row " << r << " at " << i;
      }
    }
  }
}

TEST(EmbeddingGather, NoIdsWriteNothing) {
  float untouched = 2;
  EmbeddingGather({DType::kF32, nullptr, 5, 1}, {}, &untouched, 1);

  EXPECT_EQ(untouched, 2);
}

TEST(EmbeddingGatherDeathTest, AnIdOutsideTheTableIsOurBug) {
  const float table[2] = {1, 2};
  float out = 0;
  const std::vector<uint32_t> ids = {2};
  EXPECT_DEATH(EmbeddingGather({DType::kF32, reinterpret_cast<const std::byte*>(table), 2, 1}, ids, &out, 1),
               "token id");
}

}  // namespace
}  // namespace paceline::kernels
