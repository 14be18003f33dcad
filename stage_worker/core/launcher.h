// Launcher: stage 0's decision what runs next, from plans and proposals (design section 2, point 3).
//
// Owned by the StageCore of stage 0. Promises: every plan is launched exactly once (P1); two steps of one
// sequence and lineage go in plan order, a newer lineage may pass (P6); a continuation starts at the end of
// the last launched frame of its lineage, and a proposal counts only if it names that end (P11).
//
// A step is ready when nothing before it holds it back and every proposal it still needs is there. One that
// only lacks a proposal lets ready ones pass until LateProposalPolicy says to go without.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/protocol/frame.h"
#include "common/protocol/plan_store.h"
#include "common/protocol/speculation.h"
#include "stage_worker/core/sequence_book.h"
#include "stage_worker/core/stage_core.h"

namespace paceline {

class Launcher {
 public:
  struct Decision {
    StepId step;
    bool without_proposal = false;
  };

  Launcher(const StageOptions& options, const PlanStore& plans, SequenceBook& book)
      : options_(options), plans_(plans), book_(book) {}

  void OnProposal(const Proposal& proposal);
  // The publisher says that it does not have the proposal any more.
  void OnProposalGone(StepId step);
  // Another drafter, or none: what waits for the old one goes without it.
  void OnDrafterChange(bool present);
  void OnStepMeasured(Duration compute);

  // What to launch now, if anything is ready.
  std::optional<Decision> Next(Instant now);
  // The frame of that step, and the end of what it launched. Each step once.
  StatusOr<FrameHeader> BuildFrame(const Decision& decision);

  // Steps whose proposal is owed and was not asked for since `ask_again`; counts as asked at `now`.
  std::vector<StepId> ProposalsToAsk(Instant now);
  // While a frame executes nothing can be launched, so lateness is not looked at.
  Instant NextDeadline(bool executing) const;
  void Clear();

  uint64_t proposals_off_base() const { return proposals_off_base_; }

 private:
  struct Extra {
    std::optional<Proposal> proposal;
    bool without = false;                  // decided: it runs without a proposal
    Instant waits_since = Instant::max();  // when it could have run but for the proposal
    Instant ask_at = Instant::max();
  };

  bool HeldBack(const StepPlan& plan) const;
  bool AwaitsLiveProposal(const StepPlan& plan) const;
  Duration LateAfter() const;
  Status AddSequence(const SequencePlan& plan, const Proposal* proposal, FrameHeader& header);
  uint32_t AddDrafts(const SequencePlan& plan, const Proposal* proposal, StageSequence& state,
                     FrameHeader& header);

  const StageOptions& options_;
  const PlanStore& plans_;
  SequenceBook& book_;
  std::map<StepId, Extra> extra_;
  bool drafter_present_ = false;
  Duration step_time_{};  // smoothed; 0 = not measured
  uint64_t proposals_off_base_ = 0;
};

}  // namespace paceline
