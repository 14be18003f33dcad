// FrameHeader: what travels down the pipe with the activations of one step. Made by stage 0 alone.
//
// Worked example: step 41 has seq 8 (one known id, three drafts) and seq 9 (a prefill chunk of 2, dead):
//   rows       8:12 8:13 8:14 8:15 9:64 9:65       payload [6, hidden] f32, row-major (dead rows travel as
//   zeros) sequences  {8, row_begin 0, row_count 4, num_drafted 3, draws}  {9, row_begin 4, row_count 2, live
//   false}
#pragma once

#include <cstdint>
#include <vector>

#include "common/protocol/types.h"

namespace paceline {

// The row continues the sequence's row at position - 1, in this or an earlier frame.
inline constexpr int32_t kParentPrevious = -1;

// A row is (position, slot, parent): position is what rope and stop rules see, slot where its K/V lies,
// parent the row it continues. A chain has slot = position and parent = kParentPrevious.
struct FrameRow {
  TokenId id = 0;
  Position position = 0;
  Slot slot = 0;
  int32_t parent = kParentPrevious;  // or the index of a row of this frame

  bool operator==(const FrameRow&) const = default;
};

struct FrameSequence {
  SequenceId sequence;
  Lineage lineage;
  uint32_t row_begin = 0;
  uint32_t row_count = 0;
  uint32_t num_drafted = 0;  // the last num_drafted rows are drafts, judged by the row before each
  bool draws = true;         // as in the plan
  bool live = true;          // false: launched dead; no stage computes its rows

  bool operator==(const FrameSequence&) const = default;
};

struct FrameHeader {
  Generation generation;
  StepId step;
  uint32_t slot = 0;
  std::vector<FrameSequence> sequences;  // in the plan's order, one for each of the plan's, rows or not
  std::vector<FrameRow> rows;
  uint64_t digest = 0;       // FrameDigest of the rows: every stage sees the same ids and positions (B062)
  uint32_t hidden_size = 0;  // columns of the payload
  uint64_t payload_checksum = 0;  // 0 = none; xxh3 of the payload otherwise

  bool operator==(const FrameHeader&) const = default;
};

uint64_t FrameDigest(const FrameHeader& header);

}  // namespace paceline
