#include "draft_worker/core/draft_core.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/check.h"
#include "common/protocol/log_ring.h"
#include "common/protocol/plan_store.h"
#include "common/protocol/prober.h"
#include "common/protocol/verdict_feed.h"
#include "draft_worker/core/draft_chain.h"

namespace paceline {

namespace {

// After so many re-requests a verdict that never comes is given up: drafts for some sequences are lost, not
// all drafting.
constexpr int kAsksForHoleMax = 20;

}  // namespace

class DraftCore::Impl {
 public:
  explicit Impl(DraftOptions options)
      : options_(std::move(options)),
        incarnation_(options_.worker.boot_nonce),
        prober_(options_.probe_interval, options_.probe_interval_max) {}

  void OnMessage(const WireMessage& message, Instant now, draft::Outbox& out);
  void OnEdgesReady(const Generation& generation, Instant now, draft::Outbox& out);
  void OnReplayRequest(draft::ReplayPeer peer, const ReplayRequest& request, draft::Outbox& out);
  void OnProposed(StepId step, std::vector<std::vector<TokenId>> ids, uint32_t micros, Instant now,
                  draft::Outbox& out);
  void OnTick(Instant now, draft::Outbox& out);
  Instant NextDeadline() const;

  Generation generation() const { return generation_; }
  DraftStats stats() const;
  void set_phase(std::string phase) { phase_ = std::move(phase); }

 private:
  // One awaited sequence of the plan that the proposer works on.
  struct Part {
    SequenceKey key;
    DraftChain::Request request;
    int item = -1;  // index into Propose's items; -1 = the guess reached far enough
  };
  struct Work {
    Generation generation;
    StepId step;
    std::vector<Part> parts;
    Instant started;
  };

  void Handle(const Reconfigure& config, Instant now, draft::Outbox& out);
  void Handle(const StepPlan& plan, Instant now, draft::Outbox& out);
  void Handle(const Verdict& verdict, Instant now, draft::Outbox& out);
  void Handle(const ReplayAnswer& answer, Instant now, draft::Outbox& out);
  void Handle(const Admission& admission, Instant now, draft::Outbox& out);
  void Handle(const Release& release, Instant now, draft::Outbox& out);
  void Handle(const Cancel& cancel, Instant now, draft::Outbox& out);
  void Handle(const Probe& probe, Instant now, draft::Outbox& out);
  void Handle(const ProbeSeen& seen, Instant now, draft::Outbox& out);

  bool OfThisGeneration(const Generation& generation);
  void Confirm(Instant now, draft::Outbox& out);
  void ApplyVerdicts();
  DraftChain* Find(const SequenceKey& key);

  void Pump(Instant now, draft::Outbox& out);
  bool HeldBack(const StepPlan& plan) const;
  bool Waits(const StepPlan& plan);
  // Publishes at once when the proposer has nothing to do; else it works from here on.
  void Begin(const StepPlan& plan, Instant now, draft::Outbox& out);
  void PublishWork(const Work& work, const std::vector<std::vector<TokenId>>& ids, uint32_t micros,
                   draft::Outbox& out);
  void AskAgain(Instant now, draft::Outbox& out);

  DraftOptions options_;
  Incarnation incarnation_;
  Generation generation_;
  bool edges_ready_ = false;
  bool confirmed_ = false;
  bool left_ = false;

  absl::flat_hash_map<SequenceKey, DraftChain> chains_;
  PlanStore plans_;  // pending: those that await a proposal
  VerdictFeed verdicts_;
  LogRing<Proposal> ring_;
  Prober prober_;
  std::optional<Work> work_;
  bool plan_waits_ = false;          // a plan waits for a verdict
  StepId waits_for_plan_;            // a verdict is here and its plan is not; 0 = none
  int asks_for_hole_ = 0;            // since the last verdict was applied
  Instant ask_at_ = Instant::max();  // for verdicts and plans that are missing

  std::string phase_ = "starting";
  Instant booted_ = Instant::min();
  Instant heartbeat_next_ = Instant::min();
  DraftStats stats_;
};

// ---------------------------------------------------------------- messages

void DraftCore::Impl::OnMessage(const WireMessage& message, Instant now, draft::Outbox& out) {
  if (left_) return;
  std::visit(
      [&](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, Reconfigure>) {
          Handle(m, now, out);
        } else if constexpr (std::is_same_v<M, Refusal>) {
          left_ = true;
          out.emplace_back(
              draft::Leave{FailedPreconditionError("refused by the coordinator: {}", m.reason), m.exit_code});
        } else if constexpr (std::is_same_v<M, Goodbye>) {
          left_ = true;
          out.emplace_back(draft::Leave{OkStatus(), 0});
        } else if constexpr (requires { this->Handle(m, now, out); }) {
          if (OfThisGeneration(m.generation)) Handle(m, now, out);
        }
      },
      message);
}

bool DraftCore::Impl::OfThisGeneration(const Generation& generation) {
  if (generation == generation_ || options_.broken == ProtocolBreak::kP16KeepsOldGeneration) return true;
  ++stats_.other_generation;
  return false;
}

void DraftCore::Impl::Handle(const Reconfigure& config, Instant now, draft::Outbox& out) {
  if (config.generation == generation_) {
    if (confirmed_) out.emplace_back(draft::SendControl{ReconfigureDone{generation_}});
    return;
  }
  const bool same_coordinator = config.generation.coordinator_nonce == generation_.coordinator_nonce;
  if (same_coordinator && config.generation < generation_) return;
  generation_ = config.generation;
  edges_ready_ = confirmed_ = false;
  chains_.clear();
  plans_.Clear();
  verdicts_.Clear();
  waits_for_plan_ = StepId(0);
  prober_.Stop();
  plan_waits_ = false;
  ask_at_ = Instant::max();
  const bool tiny = options_.broken == ProtocolBreak::kP17TinyRing;
  ring_.Reset(tiny ? 1 : size_t{config.num_slots} + config.launch_window + kLogRingMargin);  // P16, P17
  out.emplace_back(draft::ResetProposer{});
  out.emplace_back(draft::FollowVerdicts{generation_, config.verdicts});
  Confirm(now, out);
}

void DraftCore::Impl::OnEdgesReady(const Generation& generation, Instant now, draft::Outbox& out) {
  if (generation != generation_ || left_) return;
  edges_ready_ = true;
  Confirm(now, out);
}

void DraftCore::Impl::Confirm(Instant now, draft::Outbox& out) {
  if (!edges_ready_ || work_ || confirmed_) return;  // P16
  confirmed_ = true;
  out.emplace_back(draft::SendControl{ReconfigureDone{generation_}});
  prober_.Start(now);
}

void DraftCore::Impl::Handle(const StepPlan& plan, Instant now, draft::Outbox& out) {
  if (plans_.newest() == StepId(0) && plan.step > StepId(1)) {  // a newcomer: earlier steps are not its own
    const StepId before(plan.step.value() - 1);
    plans_.StartBehind(before);
    verdicts_.StepsDoneBefore(before);
  }
  if (!plans_.Add(plan)) return;
  ApplyVerdicts();
  const bool awaits = std::any_of(plan.sequences.begin(), plan.sequences.end(),
                                  [](const SequencePlan& sequence) { return sequence.awaits_proposal; });
  for (const SequencePlan& sequence : plan.sequences) {
    if (DraftChain* chain = Find(KeyOf(sequence.sequence, sequence.lineage)))
      chain->NoteLineage(sequence.lineage);
  }
  if (plan.sequences.empty()) verdicts_.Gone(plan.step);  // it was booked before we asked
  if (!awaits) plans_.Finish(plan.step);
  if (!plans_.Missing().empty()) ask_at_ = std::min(ask_at_, now);
  Pump(now, out);
  AskAgain(now, out);
}

void DraftCore::Impl::Handle(const Verdict& verdict, Instant now, draft::Outbox& out) {
  verdicts_.Add(verdict);
  ApplyVerdicts();
  if (verdicts_.has_hole()) ask_at_ = std::min(ask_at_, now + options_.ask_again / 4);
  if (waits_for_plan_ != StepId(0)) ask_at_ = std::min(ask_at_, now + options_.ask_again);
  Pump(now, out);
}

// A verdict that is gone leaves the chains it was about behind for good: they break at their next verdict and
// get no drafts (P8); sequences that come later are not touched.
void DraftCore::Impl::Handle(const ReplayAnswer& answer, Instant now, draft::Outbox& out) {
  if (answer.state != ReplayState::kGone) return;
  verdicts_.Gone(answer.step);
  verdicts_.SkipHole();
  ApplyVerdicts();
  Pump(now, out);
}

void DraftCore::Impl::Handle(const Admission& admission, Instant now, draft::Outbox& out) {
  const bool again = options_.broken == ProtocolBreak::kP19AppliesIncludedVerdict;
  const uint64_t included = admission.verdict_log_sequence;
  verdicts_.StartBehind(again && included > 0 ? included - 1 : included);
  const SequenceKey key = KeyOf(admission.sequence, admission.lineage);
  if (!chains_.try_emplace(key, admission).second) return;
  out.emplace_back(draft::AdmitSequence{admission});
  Pump(now, out);
}

void DraftCore::Impl::Handle(const Release& release, Instant, draft::Outbox& out) {
  const SequenceKey key{release.sequence, release.coordinator_counter};
  if (chains_.erase(key) > 0) out.emplace_back(draft::ReleaseSequence{key});
}

void DraftCore::Impl::Handle(const Cancel& cancel, Instant now, draft::Outbox& out) {
  for (auto& [key, chain] : chains_) {
    if (key.sequence == cancel.sequence) chain.NoteLineage(cancel.lineage);
  }
  Pump(now, out);
}

void DraftCore::Impl::Handle(const Probe& probe, Instant, draft::Outbox& out) {
  out.emplace_back(draft::SendControl{ProbeSeen{probe.generation, probe.incarnation}});
}

void DraftCore::Impl::Handle(const ProbeSeen& seen, Instant, draft::Outbox&) {
  if (seen.incarnation == incarnation_) prober_.Stop();
}

void DraftCore::Impl::OnReplayRequest(draft::ReplayPeer peer, const ReplayRequest& request,
                                      draft::Outbox& out) {
  if (!OfThisGeneration(request.generation)) return;
  if (plans_.Finished(request.step) && !ring_.Published(request.step)) {
    // Stage 0 waits for what this worker never owed by its own account: its copy of the plan came from before
    // it joined, or did not come at all. Exactly one proposal, so an empty one.
    PublishWork(Work{generation_, request.step, {}, {}}, {}, 0, out);
  }
  out.emplace_back(draft::AnswerReplay{peer, ring_.Answer(request, incarnation_)});
  // Stage 0 has a plan that did not reach this worker.
  const bool unknown = plans_.Find(request.step) == nullptr && !plans_.Finished(request.step);
  if (confirmed_ && unknown) {
    ++stats_.plans_asked_again;
    out.emplace_back(draft::SendControl{PlanRequest{generation_, request.step}});
  }
}

DraftChain* DraftCore::Impl::Find(const SequenceKey& key) {
  const auto it = chains_.find(key);
  return it == chains_.end() ? nullptr : &it->second;
}

void DraftCore::Impl::ApplyVerdicts() {
  while (const Verdict* next = verdicts_.Peek()) {
    // The log may be faster than the control lane. Admissions come before the plan that needs them, so with
    // the plan here every chain of the verdict is here, too (P4, P19).
    const bool planned = plans_.Finished(next->step) || plans_.Find(next->step) != nullptr;
    waits_for_plan_ = planned ? StepId(0) : next->step;
    if (!planned) return;
    const std::optional<Verdict> verdict = verdicts_.Next();
    asks_for_hole_ = 0;
    for (const SequenceVerdict& sequence : verdict->sequences) {
      DraftChain* chain = Find(KeyOf(sequence.sequence, sequence.lineage));
      if (chain == nullptr) continue;
      const bool included = verdict->log_sequence <= chain->verdicts_included();
      if (included && options_.broken != ProtocolBreak::kP19AppliesIncludedVerdict) continue;  // P19
      if (!chain->Apply(verdict->step, sequence)) ++stats_.chains_broken;
    }
  }
}

// ---------------------------------------------------------------- drafting

// Plans of one sequence are served in plan order: a continuation goes on from the guess of the one before.
bool DraftCore::Impl::HeldBack(const StepPlan& plan) const {
  for (const auto& [step, earlier] : plans_.pending()) {
    if (step >= plan.step) return false;
    for (const SequencePlan& mine : plan.sequences) {
      for (const SequencePlan& other : earlier.sequences) {
        if (mine.awaits_proposal && other.awaits_proposal && mine.sequence == other.sequence &&
            mine.lineage == other.lineage) {
          return true;
        }
      }
    }
  }
  return false;
}

bool DraftCore::Impl::Waits(const StepPlan& plan) {
  if (verdicts_.Seen(plan.step)) return false;  // stage 0 went without: the empty proposal is only owed
  const StepId before(plan.step.value() - 1);
  if (!verdicts_.has_hole() && verdicts_.Owed(before).empty()) return false;  // nothing will come for it
  return std::any_of(plan.sequences.begin(), plan.sequences.end(), [&](const SequencePlan& sequence) {
    if (!sequence.awaits_proposal) return false;
    const DraftChain* chain = Find(KeyOf(sequence.sequence, sequence.lineage));
    return chain != nullptr && chain->ReadyFor(sequence) == DraftChain::Ready::kWaits;
  });
}

void DraftCore::Impl::Pump(Instant now, draft::Outbox& out) {
  bool progress = confirmed_;
  while (progress && !work_) {
    progress = false;
    plan_waits_ = false;
    for (const auto& [step, plan] : plans_.pending()) {
      if (HeldBack(plan)) continue;
      if (Waits(plan)) {
        plan_waits_ = true;
        continue;
      }
      Begin(plan, now, out);  // ends the life of `plan` when it publishes
      progress = true;
      break;
    }
  }
  if (plan_waits_ && ask_at_ == Instant::max()) ask_at_ = now + options_.ask_again;
}

void DraftCore::Impl::Begin(const StepPlan& plan, Instant now, draft::Outbox& out) {
  Work work{generation_, plan.step, {}, now};
  draft::Propose propose{plan.step, {}};
  const bool too_late = verdicts_.Seen(plan.step);
  for (const SequencePlan& sequence : plan.sequences) {
    if (!sequence.awaits_proposal) continue;
    const SequenceKey key = KeyOf(sequence.sequence, sequence.lineage);
    DraftChain* chain = Find(key);
    std::optional<DraftChain::Request> request;
    if (!too_late && chain != nullptr && chain->ReadyFor(sequence) == DraftChain::Ready::kYes) {
      request = chain->Prepare(sequence);
    }
    if (!request) {
      ++stats_.sequences_empty;
      continue;
    }
    Part part{key, *request, -1};
    if (request->need > 0) {
      part.item = static_cast<int>(propose.items.size());
      propose.items.push_back(chain->ItemFor(*request, key));
    }
    work.parts.push_back(part);
  }
  if (propose.items.empty()) return PublishWork(work, {}, 0, out);
  work_ = std::move(work);
  out.emplace_back(std::move(propose));
}

void DraftCore::Impl::OnProposed(StepId step, std::vector<std::vector<TokenId>> ids, uint32_t micros,
                                 Instant now, draft::Outbox& out) {
  if (!work_ || work_->step != step) return;
  const Work work = *std::move(work_);
  work_.reset();
  stats_.busy += now - work.started;
  if (work.generation != generation_) return Confirm(now, out);
  PublishWork(work, ids, micros, out);
  Pump(now, out);
}

void DraftCore::Impl::PublishWork(const Work& work, const std::vector<std::vector<TokenId>>& ids,
                                  uint32_t micros, draft::Outbox& out) {
  Proposal proposal;
  proposal.generation = work.generation;
  proposal.step = work.step;
  proposal.incarnation = incarnation_;
  proposal.draft_micros = micros;
  static const std::vector<TokenId> kNone;
  for (const Part& part : work.parts) {
    DraftChain* chain = Find(part.key);
    if (chain == nullptr) continue;  // released while the proposer worked
    const bool asked = part.item >= 0 && static_cast<size_t>(part.item) < ids.size();
    SequenceProposal& entry = proposal.sequences.emplace_back();
    entry.sequence = part.key.sequence;
    entry.lineage = part.request.lineage;
    entry.base = part.request.base;
    entry.base_digest = part.request.base_digest;
    entry.ids = chain->Complete(part.request, work.step, asked ? ids[static_cast<size_t>(part.item)] : kNone);
    stats_.ids_proposed += entry.ids.size();
    if (entry.ids.empty()) ++stats_.sequences_empty;
  }
  plans_.Finish(work.step);
  ++stats_.proposals;
  out.emplace_back(draft::Publish{ring_.Add(std::move(proposal))});
}

// ---------------------------------------------------------------- time

void DraftCore::Impl::AskAgain(Instant now, draft::Outbox& out) {
  if (now < ask_at_) return;
  ask_at_ = Instant::max();
  if (verdicts_.has_hole() && ++asks_for_hole_ > kAsksForHoleMax) {
    verdicts_.SkipHole();
    ApplyVerdicts();
    Pump(now, out);
  }
  std::vector<StepId> missing = plans_.Missing();
  if (waits_for_plan_ > plans_.newest()) missing.push_back(waits_for_plan_);
  for (StepId step : missing) {
    ++stats_.plans_asked_again;
    out.emplace_back(draft::SendControl{PlanRequest{generation_, step}});
  }
  const bool wants_verdicts = verdicts_.has_hole() || plan_waits_;
  if (wants_verdicts) {
    for (StepId step : verdicts_.Owed(plans_.newest())) {
      ++stats_.verdicts_asked_again;
      out.emplace_back(draft::RequestReplay{{generation_, step}});
    }
  }
  if (wants_verdicts || !missing.empty()) ask_at_ = now + options_.ask_again;
}

void DraftCore::Impl::OnTick(Instant now, draft::Outbox& out) {
  if (left_) return;
  if (booted_ == Instant::min()) booted_ = now;
  if (prober_.Due(now)) out.emplace_back(draft::Publish{Probe{generation_, incarnation_}});
  if (now >= heartbeat_next_) {
    heartbeat_next_ = now + options_.heartbeat_interval;
    Heartbeat beat;
    beat.generation = generation_;
    beat.steps_done = stats_.proposals;
    beat.step_running = work_ ? work_->step : StepId(0);
    beat.phase = phase_;
    const Duration busy = stats_.busy + (work_ ? now - work_->started : Duration::zero());
    beat.busy_micros = static_cast<uint64_t>(ToMicros(busy));
    beat.idle_micros = static_cast<uint64_t>(ToMicros(std::max(now - booted_ - busy, Duration::zero())));
    out.emplace_back(draft::SendControl{std::move(beat)});
  }
  AskAgain(now, out);
}

Instant DraftCore::Impl::NextDeadline() const {
  if (left_) return Instant::max();
  return std::min({heartbeat_next_, prober_.next(), ask_at_});
}

DraftStats DraftCore::Impl::stats() const {
  DraftStats stats = stats_;
  stats.sequences_known = chains_.size();
  stats.plans_pending = plans_.pending().size();
  return stats;
}

// ---------------------------------------------------------------- the public shell of it

DraftCore::DraftCore(DraftOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
DraftCore::~DraftCore() = default;

void DraftCore::OnMessage(const WireMessage& message, Instant now, draft::Outbox& out) {
  impl_->OnMessage(message, now, out);
}
void DraftCore::OnEdgesReady(const Generation& generation, Instant now, draft::Outbox& out) {
  impl_->OnEdgesReady(generation, now, out);
}
void DraftCore::OnReplayRequest(draft::ReplayPeer peer, const ReplayRequest& request, Instant,
                                draft::Outbox& out) {
  impl_->OnReplayRequest(peer, request, out);
}
void DraftCore::OnProposed(StepId step, std::vector<std::vector<TokenId>> ids, uint32_t micros, Instant now,
                           draft::Outbox& out) {
  impl_->OnProposed(step, std::move(ids), micros, now, out);
}
void DraftCore::OnTick(Instant now, draft::Outbox& out) { impl_->OnTick(now, out); }
void DraftCore::SetPhase(std::string phase) { impl_->set_phase(std::move(phase)); }
Instant DraftCore::NextDeadline() const { return impl_->NextDeadline(); }
Generation DraftCore::generation() const { return impl_->generation(); }
DraftStats DraftCore::stats() const { return impl_->stats(); }

}  // namespace paceline
