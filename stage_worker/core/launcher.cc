#include "stage_worker/core/launcher.h"

#include <algorithm>

namespace paceline {
namespace {

// Proposals of steps whose plan is not here yet: more than this many steps ahead nobody can be.
constexpr uint64_t kStepsAheadMax = 4096;

const SequenceProposal* FindProposal(const Proposal* proposal, SequenceId sequence) {
  if (proposal == nullptr) return nullptr;
  for (const SequenceProposal& entry : proposal->sequences) {
    if (entry.sequence == sequence) return &entry;
  }
  return nullptr;
}

void AddRow(TokenId id, StageSequence& state, FrameHeader& header) {
  const Position position = state.end();
  header.rows.push_back({id, position, /*slot=*/position, kParentPrevious});
  state.digests.push_back(IdDigest(state.digests.back(), id));
}

}  // namespace

void Launcher::OnProposal(const Proposal& proposal) {
  if (plans_.Finished(proposal.step)) return;
  if (proposal.step.value() > plans_.newest().value() + kStepsAheadMax) return;
  Extra& extra = extra_[proposal.step];
  if (!extra.proposal)
    extra.proposal = proposal;  // two incarnations may propose for one step: the first wins
}

void Launcher::OnProposalGone(StepId step) {
  if (plans_.Find(step) != nullptr) extra_[step].without = true;
}

void Launcher::OnDrafterChange(bool present) {
  drafter_present_ = present;
  for (const auto& [step, plan] : plans_.pending()) {
    Extra& extra = extra_[step];
    if (!extra.proposal) extra.without = true;
  }
}

void Launcher::OnStepMeasured(Duration compute) {
  step_time_ = step_time_ == Duration::zero() ? compute : (step_time_ * 7 + compute) / 8;
}

Duration Launcher::LateAfter() const {
  const LateProposalPolicy& late = options_.late;
  if (step_time_ == Duration::zero()) return late.ceiling;
  const auto share = std::chrono::duration_cast<Duration>(step_time_ * late.share);
  return std::clamp(share, late.floor, std::max(late.floor, late.ceiling));
}

bool Launcher::HeldBack(const StepPlan& plan) const {
  if (options_.broken == ProtocolBreak::kP6IgnoresPlanOrder) return false;
  for (const auto& [step, earlier] : plans_.pending()) {
    if (step >= plan.step) break;
    for (const SequencePlan& mine : plan.sequences) {
      for (const SequencePlan& other : earlier.sequences) {
        if (other.sequence == mine.sequence && other.lineage == mine.lineage) return true;  // P6
      }
    }
  }
  return false;
}

bool Launcher::AwaitsLiveProposal(const StepPlan& plan) const {
  return std::any_of(plan.sequences.begin(), plan.sequences.end(), [&](const SequencePlan& sequence) {
    return sequence.awaits_proposal && !book_.IsStale(sequence.sequence, sequence.lineage);
  });
}

std::optional<Launcher::Decision> Launcher::Next(Instant now) {
  // P6: a plan that the lane lost may name any sequence; what is behind it waits until it is here.
  const std::vector<StepId> missing = plans_.Missing();
  for (const auto& [step, plan] : plans_.pending()) {
    if (!missing.empty() && step > missing.front()) break;
    if (HeldBack(plan)) continue;
    const bool awaits = AwaitsLiveProposal(plan);
    Extra& extra = extra_[step];
    if (!awaits || extra.proposal) return Decision{step, false};
    if (!drafter_present_ || extra.without) return Decision{step, true};
    if (extra.waits_since == Instant::max()) {
      extra.waits_since = now;
      extra.ask_at = now + options_.ask_again;
    }
    if (!options_.late.unbounded && now >= extra.waits_since + LateAfter()) return Decision{step, true};
  }
  return std::nullopt;
}

StatusOr<FrameHeader> Launcher::BuildFrame(const Decision& decision) {
  const StepPlan& plan = *plans_.Find(decision.step);
  const Extra& extra = extra_[decision.step];
  FrameHeader header;
  header.generation = plan.generation;
  header.step = plan.step;
  header.slot = plan.slot;
  header.hidden_size = options_.hidden_size;
  const Proposal* proposal = extra.proposal ? &*extra.proposal : nullptr;
  for (const SequencePlan& sequence : plan.sequences) {
    RETURN_IF_ERROR(AddSequence(sequence, proposal, header));
  }
  header.digest = FrameDigest(header);
  extra_.erase(decision.step);
  return header;
}

Status Launcher::AddSequence(const SequencePlan& plan, const Proposal* proposal, FrameHeader& header) {
  if (!plan.continuation && plan.known_ids.empty()) {
    return DataLossError("P10: seq {} is planned from position {} without a known id", plan.sequence,
                         plan.start);
  }
  FrameSequence frame{plan.sequence, plan.lineage, static_cast<uint32_t>(header.rows.size()), 0, 0,
                      plan.draws};
  StageSequence& state = book_.Get(KeyOf(plan.sequence, plan.lineage));
  frame.live = !book_.IsStale(plan.sequence, plan.lineage);
  if (frame.live && plan.continuation) {
    // P11: only behind a frame of its own lineage; known ids must lie exactly there.
    frame.live = state.launched == plan.lineage && (plan.known_ids.empty() || plan.start == state.end());
  }
  if (frame.live) {
    const bool rewinds = !plan.continuation || options_.broken == ProtocolBreak::kP11StartsWherePlanned;
    if (rewinds) {
      if (plan.start > state.end()) {
        return DataLossError("P11: seq {} is planned from position {}, stage 0 launched up to {}",
                             plan.sequence, plan.start, state.end());
      }
      state.digests.resize(plan.start + 1);
    }
    for (TokenId id : plan.known_ids) AddRow(id, state, header);
    frame.num_drafted = AddDrafts(plan, proposal, state, header);
    state.launched = plan.lineage;
  }
  frame.row_count = static_cast<uint32_t>(header.rows.size()) - frame.row_begin;
  header.sequences.push_back(frame);
  return OkStatus();
}

uint32_t Launcher::AddDrafts(const SequencePlan& plan, const Proposal* proposal, StageSequence& state,
                             FrameHeader& header) {
  const SequenceProposal* drafts = plan.awaits_proposal ? FindProposal(proposal, plan.sequence) : nullptr;
  if (drafts == nullptr || drafts->ids.empty() || !drafts->parents.empty()) return 0;
  if (drafts->base != state.end() || drafts->base_digest != state.digests.back()) {  // P11
    ++proposals_off_base_;
    return 0;
  }
  uint32_t count = 0;
  for (TokenId id : drafts->ids) {
    if (count == plan.draft_len_max) break;
    if (id < 0 || (options_.vocab_size > 0 && static_cast<uint32_t>(id) >= options_.vocab_size)) break;
    AddRow(id, state, header);
    ++count;
  }
  return count;
}

std::vector<StepId> Launcher::ProposalsToAsk(Instant now) {
  std::vector<StepId> steps;
  for (auto& [step, extra] : extra_) {
    if (extra.ask_at > now || extra.proposal || extra.without) continue;
    extra.ask_at = now + options_.ask_again;
    steps.push_back(step);
  }
  return steps;
}

Instant Launcher::NextDeadline(bool executing) const {
  Instant next = Instant::max();
  for (const auto& [step, extra] : extra_) {
    if (extra.proposal || extra.without || extra.waits_since == Instant::max()) continue;
    next = std::min(next, extra.ask_at);
    if (!executing && !options_.late.unbounded) next = std::min(next, extra.waits_since + LateAfter());
  }
  return next;
}

void Launcher::Clear() {
  extra_.clear();
  step_time_ = Duration::zero();
}

}  // namespace paceline
