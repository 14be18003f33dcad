// BlockTable: where a sequence's rows lie, block by block. Slot s lies in block s / block_size at s %
// block_size.
//
// Within one (sequence, coordinator counter) a table only grows and an entry never changes. That makes deltas
// of a newer lineage, which may pass older ones on their way through stage 0 (P6), commute with them: the
// newer one names again every block whose step has no verdict yet, and naming an entry twice is harmless.
//
//   table [4]    delta {len_before 1, appended [7 9]} -> [4 7 9]    then {1, [7]} of the step it passed -> [4
//   7 9]
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/step_plan.h"
#include "common/protocol/types.h"

namespace paceline {

class BlockTable {
 public:
  // P2: called once per step at the frame's place in the pipe. An error means that a delta before this one is
  // missing or that an entry changed: the sender and this stage disagree, and nothing may be computed.
  Status Apply(const BlockTableDelta& delta) {
    if (delta.len_before > blocks_.size()) {
      return DataLossError("P2: a block-table delta starts at {}, the table has {} blocks", delta.len_before,
                           blocks_.size());
    }
    for (size_t i = 0; i < delta.appended.size(); ++i) {
      const size_t index = delta.len_before + i;
      if (index == blocks_.size()) {
        blocks_.push_back(delta.appended[i]);
      } else if (blocks_[index] != delta.appended[i]) {
        return DataLossError("P2: entry {} of a block table is block {}, a delta makes it {}", index,
                             blocks_[index], delta.appended[i]);
      }
    }
    return OkStatus();
  }
  const std::vector<BlockId>& blocks() const { return blocks_; }
  // Slots that the table covers.
  uint64_t SlotsCovered(uint32_t block_size) const { return uint64_t{block_size} * blocks_.size(); }

 private:
  std::vector<BlockId> blocks_;
};

}  // namespace paceline
