// ForwardBatch: the rows of one step for the model graph, from any number of sequences.
//
// Built by the executor from a frame and its block tables, read by StageModel; all spans are the caller's and
// live through the call. A row is (position, slot, parent): what it sees is given as a path, the committed
// slots [0, prefix_len) and behind them `tail_slots`, its uncommitted ancestors, oldest first. The path holds
// position + 1 entries, the last is the row itself; how it is split between prefix and tail never shows in
// the bits.
//
//   block size 4; seq 0 (blocks 7 2) verifies at 5 with one draft, seq 1 (block 3) prefills 0..1
//     {id 31, position 5, sequence 0, slot 5, prefix_len 6}     {id 9, position 0, sequence 1, slot 0,
//     prefix_len 1} {id 44, position 6, sequence 0, slot 6, prefix_len 7}     {id 2, position 1, sequence 1,
//     slot 1, prefix_len 2}
//   the same verify rows of a tree, second child of row 5 at slot 9:
//     {id 50, position 6, sequence 0, slot 9, prefix_len 5, tail_slots {5, 9}}
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/protocol/types.h"

namespace paceline {

struct ForwardRow {
  TokenId id = 0;
  Position position = 0;
  uint32_t sequence_index = 0;            // into ForwardBatch::block_tables
  Slot slot = 0;                          // where its K/V goes
  uint32_t prefix_len = 0;                // a chain: position + 1, and no tail
  std::span<const Slot> tail_slots = {};  // if any, ends with `slot`
  uint32_t residual_row = 0;              // its row in the residual that comes in and goes out
};

struct ForwardBatch {
  std::span<const ForwardRow> rows;
  std::span<const std::span<const BlockId>> block_tables;  // one per sequence
  uint32_t residual_rows = 0;                              // rows of the residual, those of no row included
};

// What a batch must keep within; rows come from other processes, so they are checked before they are used.
struct BatchLimits {
  uint32_t rows_max = 0;
  uint32_t vocab_size = 0;
  uint32_t positions_max = 0;  // context that rope is prepared for
  uint32_t num_blocks = 0;     // of the pool
  uint32_t block_size = 0;
};

// InvalidArgument names the row and the field that is out of bounds.
Status CheckBatch(const ForwardBatch& batch, const BatchLimits& limits);

}  // namespace paceline
