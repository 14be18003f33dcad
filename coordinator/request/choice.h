// Choice: one request's one answer: its committed ids, the attempt it is in, and what of it is in the pipe.
//
// Owned by CoordinatorCore. Invariants:
//   (I1) ids only grow; what was delivered never changes.
//   (I2) `out` holds the live steps of the current lineage in plan order. Known ids of a decode are planned
//        only when it is empty (P12); behind it only continuations.
//   (I3) rows_end + what `out` may add bounds every row in the pipe; blocks cover it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/protocol/sequence_key.h"
#include "common/protocol/types.h"
#include "coordinator/request/generation.h"
#include "coordinator/request/trim.h"

namespace paceline {

struct Choice {
  // A live step of the current lineage.
  struct Out {
    StepId step;
    uint32_t known = 0;
    uint32_t draft_len_max = 0;
    bool draws = false;
  };

  SequenceId sequence;
  uint64_t arrival = 0;  // order of submission: who came first goes first, also after a preemption
  GenerationRequest request;
  std::vector<TokenId> ids;  // prompt, then committed output
  uint32_t prompt_len = 0;
  uint32_t total_len_max = 0;
  bool running = false;  // admitted: owns blocks, has an attempt
  // Attempt (P7): raised at admission, preemption, cancel and finish.
  Lineage lineage;
  std::vector<BlockId> blocks;    // by logical index
  uint32_t blocks_confirmed = 0;  // leading ones whose delta every stage has applied
  Position rows_end = 0;          // end of the rows that verdicts report as computed
  std::deque<Out> out;
  bool run_ahead_paused = false;  // the last continuation carried nothing

  // Totals for the answer.
  uint32_t num_drafted = 0;
  uint32_t num_accepted = 0;
  uint32_t num_steps = 0;

  SequenceKey key() const { return KeyOf(sequence, lineage); }
  uint32_t committed_len() const { return static_cast<uint32_t>(ids.size()); }
  uint32_t output_len() const { return committed_len() - prompt_len; }
  // Bounds of the end of the chain that stage 0 has launched or will, once all of `out` is through.
  Position end_min() const {
    Position end = rows_end;
    for (const Out& o : out) end += o.known;
    return end;
  }
  Position end_max() const {
    Position end = end_min();
    for (const Out& o : out) end += o.draft_len_max;
    return end;
  }
  bool prefilling() const { return end_min() < committed_len(); }
  // Rows lie below this position: the row before the last allowed token is the last that is worth computing.
  Position rows_limit() const { return total_len_max - 1; }
};

}  // namespace paceline
