// StepPlanner: which sequences the next step takes, and how far each goes.
//
// First come, first served, in three rounds: sequences that can decode; prompt chunks with what is left of
// the token budget; and, only when neither exists, run-ahead continuations: other requests fill the pipe
// better than deep guesses. A step takes at most ceil(running / slots) sequences, so that every slot gets its
// part.
//
// Blocks are taken as rows are planned. When there are none, known rows may preempt a younger sequence (the
// oldest one therefore always gets on); drafts only use what is free. While one waits for blocks to come out
// of quarantine, no younger one may take any.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/protocol/protocol_break.h"
#include "common/protocol/step_plan.h"
#include "coordinator/kv/block_allocator.h"
#include "coordinator/request/choice.h"
#include "coordinator/speculation/draft_length.h"

namespace paceline {

struct StepPlannerOptions {
  uint32_t num_slots = 1;
  uint32_t max_num_batched_tokens = 2048;
  uint32_t frames_in_flight_max = 1;
  uint32_t kv_block_size = 16;
  ProtocolBreak broken = ProtocolBreak::kNone;
};

class StepPlanner {
 public:
  struct Planned {
    StepPlan plan;                 // without generation, step and slot
    std::vector<Choice*> members;  // in the plan's order; each has a new entry in `out`
  };
  // Frees blocks of a running choice that is younger than `needy` and none of `keep`. False: there is none.
  using PreemptFn = std::function<bool(const Choice& needy, const std::vector<Choice*>& keep)>;

  StepPlanner(const StepPlannerOptions& options, BlockAllocator& kv, const DraftLength& draft_length)
      : options_(options), kv_(kv), draft_length_(draft_length) {}

  void SetBlockSize(uint32_t kv_block_size) { options_.kv_block_size = kv_block_size; }
  // A running sequence waits for blocks: nobody should be admitted into them.
  bool starving() const { return starving_arrival_ != kNobody; }

  // `running` in order of arrival. Empty when nothing can run now.
  std::optional<Planned> Make(const std::vector<Choice*>& running, bool drafts, const PreemptFn& preempt);

 private:
  struct Round {
    Planned planned;
    uint32_t rows_left = 0;
    size_t sequences_left = 0;
    bool drafts = false;
    const PreemptFn* preempt = nullptr;
    bool full() const { return rows_left == 0 || sequences_left == 0; }
    bool Has(const Choice* choice) const;
  };

  bool CanDecode(const Choice& choice) const;
  void AddKnown(Choice& choice, Round& round);
  void AddRunAhead(Choice& choice, Round& round);
  void Add(Choice& choice, SequencePlan plan, Round& round);
  Position RowsLimit(const Choice& choice) const;
  bool CoverKnown(Choice& choice, Position end, Round& round);
  // False for a sequence that came after one that waits for blocks: freed blocks must reach the older one.
  bool MayTakeBlocks(const Choice& choice) const { return choice.arrival <= starving_arrival_; }
  // As many of `wanted` rows behind `end` as free blocks cover.
  uint32_t CoverDrafts(Choice& choice, Position end, uint32_t wanted);
  // Blocks for all rows below `end`, or none of them.
  bool Extend(Choice& choice, Position end);

  StepPlannerOptions options_;
  BlockAllocator& kv_;
  const DraftLength& draft_length_;
  static constexpr uint64_t kNobody = UINT64_MAX;
  uint64_t starving_arrival_ = kNobody;  // the oldest choice whose known rows found no blocks
};

}  // namespace paceline
