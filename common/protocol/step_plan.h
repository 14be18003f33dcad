// StepPlan: what one step is to do. Made by the coordinator, sent to all stages and to the draft worker.
//
// Worked example, block size 4, two stages, one plan with three sequences:
//
//   seq 7 prefill chunk   start 0,  known_ids [5 9 2 4 8], draws false            rows at positions 0..4
//   seq 8 decode + draft  start 12, known_ids [31], draft_len_max 3, awaits       rows 12, then 13..15
//   drafted seq 9 run-ahead       continuation, draft_len_max 4, start_min 20              rows wherever
//   stage 0's last
//                                                                                  frame of that lineage
//                                                                                  ended
//
// A plan's start position *is* the rewind: K/V at and beyond it is overwritten. A proposal only appends
// (P10).
#pragma once

#include <vector>

#include "common/protocol/types.h"

namespace paceline {

// Rows that a sequence's winning branch moves to slot = position before the step's own rows run (P2). Empty
// for chains; trees fill it.
struct KvMove {
  Slot from = 0;
  Slot to = 0;
  bool operator==(const KvMove&) const = default;
};

// Executed at every stage at the frame's place in the pipe, exactly once, even when all its rows are dead
// (P2).
// Within a coordinator counter tables only grow (block_table.h).
struct BlockTableDelta {
  uint32_t len_before = 0;        // index of the first block named here
  std::vector<BlockId> appended;  // new blocks, and again those whose step had no verdict at planning
  bool operator==(const BlockTableDelta&) const = default;
};

struct SequencePlan {
  SequenceId sequence;
  Lineage lineage;  // what the coordinator has seen; the last stage may have raised it since
  // Position of the first row. For a continuation it is only a lower bound: stage 0 sets the start to the end
  // of its last launched frame of that lineage (P11).
  Position start = 0;
  // Ids at start, start + 1, ...; empty only for a continuation (P10). A continuation has some when it is the
  // next chunk of a prompt; its start is then exact.
  std::vector<TokenId> known_ids;
  bool continuation = false;     // run-ahead: planned while an earlier step of this lineage is out
  bool awaits_proposal = false;  // stage 0 waits (bounded) for the draft worker's ids
  uint32_t draft_len_max = 0;    // most ids that a proposal may append; blocks cover them
  bool draws = true;             // false: a prefill chunk that is not the prompt's last; no token is drawn
  BlockTableDelta blocks;
  std::vector<KvMove> moves;

  bool operator==(const SequencePlan&) const = default;
};

struct StepPlan {
  Generation generation;
  StepId step;
  uint32_t slot = 0;  // microbatch slot, 0..num_virtual_engines-1; released by the verdict
  std::vector<SequencePlan> sequences;

  bool operator==(const StepPlan&) const = default;
};

}  // namespace paceline
