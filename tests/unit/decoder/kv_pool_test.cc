#include "common/decoder/kv_pool.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr KvPoolShape kShape = {.num_layers = 3,
                                .num_blocks = 5,
                                .block_size = 4,
                                .num_kv_heads = 2,
                                .head_dim = 6,
                                .dtype = DType::kF32};
constexpr size_t kRowFloats = 2 * 6;
constexpr size_t kPlaneFloats = 5 * 4 * kRowFloats;

float* Row(std::byte* plane, uint32_t place) { return reinterpret_cast<float*>(plane) + place * kRowFloats; }

TEST(KvPool, BlockBytesCountKAndVOfAllLayers) {
  EXPECT_EQ(*KvBlockBytes(kShape), 3u * 2 * 4 * 2 * 6 * 4);
  KvPoolShape half = kShape;
  half.dtype = DType::kF16;
  EXPECT_EQ(*KvBlockBytes(half), *KvBlockBytes(kShape) / 2);
}

TEST(KvPool, LayersAreDisjointZeroedAndWritableToTheirLastByte) {
  KvPool pool = *KvPool::Create(kShape);
  for (uint32_t layer = 0; layer < 3; ++layer) {
    for (std::byte* plane : {pool.Layer(layer).k, pool.Layer(layer).v}) {
      float* values = reinterpret_cast<float*>(plane);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(plane) % 64, 0u);
      for (size_t i = 0; i < kPlaneFloats; ++i) {
        ASSERT_EQ(values[i], 0.0f) << "written through another plane";
        values[i] = 1.0f;
      }
    }
  }
}

TEST(KvPool, MovesARowToAnotherSlotInEveryPlane) {
  KvPool pool = *KvPool::Create(kShape);
  const std::vector<BlockId> blocks = {BlockId(3),
                                       BlockId(1)};  // slot 6 lies at place 1 * 4 + 2, slot 1 at 13
  for (uint32_t layer = 0; layer < 3; ++layer) {
    Row(pool.Layer(layer).k, 6)[11] = 10.0f + layer;
    Row(pool.Layer(layer).v, 6)[0] = 20.0f + layer;
  }

  const std::vector<KvMove> moves = {{.from = 6, .to = 1}};
  ASSERT_TRUE(pool.MoveRows(blocks, moves).ok());

  for (uint32_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(Row(pool.Layer(layer).k, 13)[11], 10.0f + layer);
    EXPECT_EQ(Row(pool.Layer(layer).v, 13)[0], 20.0f + layer);
    EXPECT_EQ(Row(pool.Layer(layer).k, 12)[11], 0.0f);
    EXPECT_EQ(Row(pool.Layer(layer).k, 14)[11], 0.0f);
  }
}

TEST(KvPool, AMoveOutsideTheTableMovesNothing) {
  KvPool pool = *KvPool::Create(kShape);
  Row(pool.Layer(0).k, 0)[0] = 7.0f;
  const std::vector<BlockId> blocks = {BlockId(0)};
  const std::vector<KvMove> moves = {{.from = 0, .to = 1}, {.from = 0, .to = 4}};

  EXPECT_THAT(std::string(Message(pool.MoveRows(blocks, moves))), HasSubstr("found slot 4"));
  EXPECT_EQ(Row(pool.Layer(0).k, 1)[0], 0.0f);
}

TEST(KvPool, RefusesOtherTypesAndSizesThatOverflow) {
  KvPoolShape shape = kShape;
  shape.dtype = DType::kQ8_0;
  EXPECT_THAT(std::string(Message(KvPool::Create(shape).status())), HasSubstr("--kv-cache-dtype"));

  shape = kShape;
  shape.num_blocks = shape.num_kv_heads = shape.head_dim = 0xFFFFFFFF;
  EXPECT_EQ(KvPool::Create(shape).status().code(), absl::StatusCode::kInvalidArgument);

  shape = kShape;
  shape.num_blocks = 0;
  EXPECT_EQ(KvPool::Create(shape).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(KvPool, MoreMemoryThanThereIsAnswersResourceExhausted) {
  KvPoolShape shape = kShape;
  shape.num_blocks = 0xFFFFFFFF;
  shape.head_dim = 4096;
  EXPECT_EQ(KvPool::Create(shape).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(KvPool, MovingThePoolKeepsItsMemory) {
  KvPool first = *KvPool::Create(kShape);
  Row(first.Layer(2).v, 0)[3] = 4.0f;
  KvPool second = std::move(first);
  EXPECT_EQ(Row(second.Layer(2).v, 0)[3], 4.0f);
}

}  // namespace
}  // namespace paceline
