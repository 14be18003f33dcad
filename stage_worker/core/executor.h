// StageExecutor: the seam between a stage's core and what computes. StageWork is one frame, ready to run.
//
// The core resolves everything before: dead rows are left out, block tables already have the step's delta,
// and which rows draw is decided. The executor only moves K/V rows, runs its layers and, on the last stage,
// draws with VerifyChain.
//
// Threading: one compute thread calls Admit, Forget, Reset and Run, in the order of the core's outbox, one at
// a time. Between layers it may skip the rows of sequences that the shell marked dead (RowsDied); their
// result then says `died`. Failure: Run's Status means that the device or the model failed; the worker
// leaves.
//
// Worked example, last stage, block size 4, frame of two sequences, the second one dead (payload rows 3, 4):
//   rows       id 31 pos 12 slot 12 payload_row 0    id 7 pos 13 payload_row 1    id 9 pos 14 payload_row 2
//   sequences  {8.1, blocks [5 0 2 9], rows 0..3, draws, judge_begin 0}
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/base/strong_id.h"
#include "common/protocol/sequence_key.h"
#include "common/protocol/sequence_messages.h"
#include "common/protocol/speculation.h"
#include "common/protocol/step_plan.h"
#include "common/protocol/types.h"

namespace paceline {

// Names a buffer of activations that the shell keeps. 0 = none: stage 0's input, or rows that are all zero.
using PayloadHandle = StrongId<struct PayloadHandleTag, uint64_t>;

struct WorkRow {
  TokenId id = 0;
  Position position = 0;
  Slot slot = 0;             // where this row's K/V is written
  uint32_t payload_row = 0;  // its row in the input and output payload
  // What attention reads: the committed slots [0, prefix_len), then tail_slots[tail_begin, + tail_count) of
  // the work. A chain has prefix_len = position + 1 and no tail.
  uint32_t prefix_len = 0;
  uint32_t tail_begin = 0;
  uint32_t tail_count = 0;
};

struct WorkSequence {
  SequenceKey key;
  std::vector<BlockId> blocks;  // logical block -> block of the pool, the step's delta applied
  std::vector<KvMove> moves;    // to run before the rows, also when there are none (P2)
  uint32_t row_begin = 0;       // in StageWork::rows
  uint32_t row_count = 0;       // 0 when only moves are due
  // Last stage: rows from judge_begin (relative to row_begin) on want logits and go to VerifyChain. The first
  // of them draws the id at `draw_position`.
  bool draws = false;
  uint32_t judge_begin = 0;
  Position draw_position = 0;
};

struct StageWork {
  Generation generation;
  StepId step;
  std::vector<WorkSequence> sequences;
  std::vector<WorkRow> rows;  // live rows only, grouped by sequence
  std::vector<Slot> tail_slots;
  uint32_t payload_rows = 0;  // rows of the frame, dead ones included: the payload's first dimension
  PayloadHandle input;
};

struct SequenceResult {
  SequenceKey key;
  std::vector<TokenId> ids;             // VerifyChain's, empty where nothing draws
  std::vector<TokenLogprobs> logprobs;  // empty, or one per id
  uint32_t num_matched = 0;
  RowFailure failure = RowFailure::kNone;
  bool died = false;  // rows were skipped half way; ids are empty
};

struct ExecutionResult {
  Generation generation;
  StepId step;
  PayloadHandle output;                   // for the next stage; 0 on the last
  std::vector<SequenceResult> sequences;  // last stage: one per WorkSequence that draws, any order
  uint32_t compute_micros = 0;
};

class StageExecutor {
 public:
  virtual ~StageExecutor() = default;
  // Last stage: history and sampler of a sequence. The executor appends the ids it drew itself.
  virtual void Admit(const Admission& admission) = 0;
  virtual void Forget(const SequenceKey& key) = 0;
  // A new generation: every sequence is forgotten, the pool has `kv_blocks` blocks and no content.
  virtual Status Reset(uint32_t kv_blocks, uint32_t kv_block_size) = 0;
  virtual StatusOr<ExecutionResult> Run(const StageWork& work) = 0;
};

}  // namespace paceline
