// BlockAllocator: who owns which KV block. Blocks are logical: the same number at every stage.
//
// Owned by CoordinatorCore. Promises: a block has one owner; one that was given back is handed out again only
// when every step that was planned while its owner could read or write it has its verdict (P3).
//
//   auto blocks = kv.Take(3);          // or nothing at all
//   kv.GiveBack(*blocks, {step 7, step 9});
//   kv.OnStepBooked(7); kv.OnStepBooked(9);   // now they are free
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/protocol/protocol_break.h"
#include "common/protocol/types.h"

namespace paceline {

class BlockAllocator {
 public:
  explicit BlockAllocator(ProtocolBreak broken) : broken_(broken) {}

  // P16: all blocks free.
  void Reset(uint32_t num_blocks);
  std::optional<std::vector<BlockId>> Take(uint32_t count);
  // `steps` are the steps of the owner whose verdict has not come.
  void GiveBack(const std::vector<BlockId>& blocks, std::vector<StepId> steps);
  void OnStepBooked(StepId step);

  uint32_t total() const { return total_; }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t quarantined() const { return quarantined_; }

 private:
  struct Quarantine {
    std::vector<BlockId> blocks;
    std::vector<StepId> waits_for;
  };
  void MakeFree(const std::vector<BlockId>& blocks);

  ProtocolBreak broken_;
  uint32_t total_ = 0;
  uint32_t quarantined_ = 0;
  std::vector<BlockId> free_;  // the most recent one is handed out first: its memory is warm
  std::vector<bool> owned_;    // by a sequence or by the quarantine
  std::vector<Quarantine> quarantine_;
};

}  // namespace paceline
