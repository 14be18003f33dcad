// BlockTable: where a sequence's rows lie, block by block. Slot s lies in block s / block_size at s %
// block_size.
#pragma once

#include <vector>

#include "common/base/check.h"
#include "common/protocol/step_plan.h"
#include "common/protocol/types.h"

namespace paceline {

class BlockTable {
 public:
  // P2: called once per step at the frame's place in the pipe.
  void Apply(const BlockTableDelta& delta) {
    CHECK_LE(delta.len_before, blocks_.size()) << "P2: a delta of an earlier step is missing";
    blocks_.resize(delta.len_before);
    blocks_.insert(blocks_.end(), delta.appended.begin(), delta.appended.end());
  }
  const std::vector<BlockId>& blocks() const { return blocks_; }
  // Slots that the table covers.
  uint64_t SlotsCovered(uint32_t block_size) const { return uint64_t{block_size} * blocks_.size(); }

 private:
  std::vector<BlockId> blocks_;
};

}  // namespace paceline
