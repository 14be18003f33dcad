#include "coordinator/kv/block_allocator.h"

#include <utility>

#include "common/base/check.h"

namespace paceline {

void BlockAllocator::Reset(uint32_t num_blocks) {
  total_ = num_blocks;
  quarantined_ = 0;
  quarantine_.clear();
  owned_.assign(num_blocks, false);
  free_.clear();
  for (uint32_t i = num_blocks; i > 0; --i) free_.push_back(BlockId(i - 1));
}

std::optional<std::vector<BlockId>> BlockAllocator::Take(uint32_t count) {
  if (count > free_.size()) return std::nullopt;
  std::vector<BlockId> blocks;
  for (uint32_t i = 0; i < count; ++i) {
    const BlockId block = free_.back();
    free_.pop_back();
    CHECK(!owned_[block.value()]) << "P3: block " << block << " was free and owned";
    owned_[block.value()] = true;
    blocks.push_back(block);
  }
  return blocks;
}

void BlockAllocator::MakeFree(const std::vector<BlockId>& blocks) {
  for (BlockId block : blocks) {
    CHECK(owned_[block.value()]) << "P3: block " << block << " was given back twice";
    owned_[block.value()] = false;
    free_.push_back(block);
  }
}

void BlockAllocator::GiveBack(const std::vector<BlockId>& blocks, std::vector<StepId> steps) {
  if (blocks.empty()) return;
  if (steps.empty() || broken_ == ProtocolBreak::kP3NoQuarantine) return MakeFree(blocks);
  quarantined_ += static_cast<uint32_t>(blocks.size());
  quarantine_.push_back({blocks, std::move(steps)});
}

void BlockAllocator::OnStepBooked(StepId step) {
  for (size_t i = 0; i < quarantine_.size();) {
    std::erase(quarantine_[i].waits_for, step);
    if (!quarantine_[i].waits_for.empty()) {
      ++i;
      continue;
    }
    quarantined_ -= static_cast<uint32_t>(quarantine_[i].blocks.size());
    MakeFree(quarantine_[i].blocks);
    quarantine_.erase(quarantine_.begin() + static_cast<ptrdiff_t>(i));
  }
}

}  // namespace paceline
