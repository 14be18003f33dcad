#include "coordinator/kv/block_allocator.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

TEST(BlockAllocator, GivesAllOrNothing) {
  BlockAllocator kv(ProtocolBreak::kNone);
  kv.Reset(4);

  EXPECT_FALSE(kv.Take(5));
  EXPECT_EQ(kv.free(), 4u);
  EXPECT_EQ(kv.Take(4)->size(), 4u);
  EXPECT_FALSE(kv.Take(1));
}

TEST(BlockAllocator, P3_ABlockIsFreeOnlyAfterEveryStepOfItsOwner) {
  BlockAllocator kv(ProtocolBreak::kNone);
  kv.Reset(4);
  const auto blocks = kv.Take(3);

  kv.GiveBack(*blocks, {StepId(7), StepId(9)});
  EXPECT_EQ(kv.free(), 1u);
  EXPECT_EQ(kv.quarantined(), 3u);
  kv.OnStepBooked(StepId(9));
  EXPECT_EQ(kv.free(), 1u);
  kv.OnStepBooked(StepId(7));

  EXPECT_EQ(kv.free(), 4u);
  EXPECT_EQ(kv.quarantined(), 0u);
}

TEST(BlockAllocator, WithoutStepsInThePipeBlocksAreFreeAtOnce) {
  BlockAllocator kv(ProtocolBreak::kNone);
  kv.Reset(4);
  kv.GiveBack(*kv.Take(2), {});

  EXPECT_EQ(kv.free(), 4u);
}

TEST(BlockAllocator, ABlockHasOneOwner) {
  BlockAllocator kv(ProtocolBreak::kNone);
  kv.Reset(64);
  std::set<BlockId> owned;
  for (int i = 0; i < 16; ++i) {
    const auto taken = kv.Take(4);
    for (BlockId block : *taken) EXPECT_TRUE(owned.insert(block).second);
  }
}

TEST(BlockAllocatorDeathTest, P3_GivingBackTwiceIsNoticed) {
  BlockAllocator kv(ProtocolBreak::kNone);
  kv.Reset(4);
  const auto blocks = kv.Take(1);
  kv.GiveBack(*blocks, {});

  EXPECT_DEATH(kv.GiveBack(*blocks, {}), "P3");
}

}  // namespace
}  // namespace paceline
