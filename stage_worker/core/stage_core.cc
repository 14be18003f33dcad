#include "stage_worker/core/stage_core.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/protocol/log_ring.h"
#include "common/protocol/plan_store.h"
#include "common/protocol/prober.h"
#include "stage_worker/core/frame_intake.h"
#include "stage_worker/core/frame_run.h"
#include "stage_worker/core/launcher.h"
#include "stage_worker/core/sequence_book.h"

namespace paceline {
namespace {

constexpr int kExitProtocol = 75;
// A frame may be faster than its plan: they travel on different planes.
constexpr Duration kPlanPatience = 20ms;

}  // namespace

class StageCore::Impl {
 public:
  explicit Impl(StageOptions options)
      : options_(std::move(options)),
        incarnation_(options_.worker.boot_nonce),
        book_(options_.broken),
        launcher_(options_, plans_, book_),
        prober_(options_.probe_interval, options_.probe_interval_max) {}

  void OnMessage(const WireMessage& message, Instant now, stage::Outbox& out);
  void OnEdgesReady(const Generation& generation, stage::Outbox& out);
  void OnReplayRequest(ReplayPeer peer, const ReplayRequest& request, stage::Outbox& out);
  void OnFrame(FrameHeader header, PayloadHandle payload, Instant now, stage::Outbox& out);
  void OnExecuted(ExecutionResult result, Instant now, stage::Outbox& out);
  void OnTick(Instant now, stage::Outbox& out);
  Instant NextDeadline() const;

  Generation generation() const { return generation_; }
  bool executing() const { return executing_; }
  StageStats stats() const;
  void set_phase(std::string phase) { phase_ = std::move(phase); }

 private:
  bool first() const { return options_.stage == 0; }
  bool last() const { return options_.stage + 1 == options_.num_stages; }

  // One overload per message that a stage hears; the rest is not for it.
  void Handle(const Reconfigure& config, Instant now, stage::Outbox& out);
  void Handle(const StepPlan& plan, Instant now, stage::Outbox& out);
  void Handle(const Proposal& proposal, Instant now, stage::Outbox& out);
  void Handle(const ReplayAnswer& answer, Instant now, stage::Outbox& out);
  void Handle(const Admission& admission, Instant now, stage::Outbox& out);
  void Handle(const Release& release, Instant now, stage::Outbox& out);
  void Handle(const Cancel& cancel, Instant now, stage::Outbox& out);
  void Handle(const Verdict& verdict, Instant now, stage::Outbox& out);
  void Handle(const DrafterChange& change, Instant now, stage::Outbox& out);
  void Handle(const Probe& probe, Instant now, stage::Outbox& out);
  void Handle(const ProbeSeen& seen, Instant now, stage::Outbox& out);

  bool OfThisGeneration(const Generation& generation);
  void Confirm(stage::Outbox& out);
  // Its rows in the running frame may be dead now.
  void Hint(SequenceId sequence, stage::Outbox& out);
  // `patience`: how long it may still be on its way; 0 when the lane has shown that it is lost.
  void AskForPlan(StepId step, Duration patience, Instant now, stage::Outbox& out);
  void AskAgain(Instant now, stage::Outbox& out);

  // Runs what can run until something executes or nothing is ready.
  void Pump(Instant now, stage::Outbox& out);
  bool LaunchOne(Instant now, stage::Outbox& out);
  bool TakeOneFrame(Instant now, stage::Outbox& out);
  bool AdmissionsAreHere(const StepPlan& plan);
  void StartRun(Frame frame, const StepPlan& plan, Instant now, stage::Outbox& out);
  void FinishRun(ExecutionResult result, stage::Outbox& out);
  void Leave(Status reason, stage::Outbox& out);

  StageOptions options_;
  Incarnation incarnation_;
  Generation generation_;
  uint32_t kv_block_size_ = 1;
  bool edges_ready_ = false;
  bool confirmed_ = false;
  bool left_ = false;

  SequenceBook book_;
  PlanStore plans_;
  Launcher launcher_;
  FrameIntake intake_;
  LogRing<Verdict> ring_;
  Prober prober_;
  std::optional<FrameRun> run_;  // empty while a frame of an old generation executes
  bool executing_ = false;
  PayloadHandle stale_input_;  // of such a frame
  StepId executing_step_;
  Instant run_started_ = Instant::min();
  absl::flat_hash_map<StepId, Instant> plan_ask_at_;  // plans and admissions that are missing

  std::string phase_ = "starting";
  Instant booted_ = Instant::min();
  Instant heartbeat_next_ = Instant::min();
  StageStats stats_;
};

// ---------------------------------------------------------------- messages

void StageCore::Impl::OnMessage(const WireMessage& message, Instant now, stage::Outbox& out) {
  if (left_) return;
  std::visit(
      [&](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, Reconfigure>) {
          Handle(m, now, out);
        } else if constexpr (std::is_same_v<M, Refusal>) {
          left_ = true;
          out.emplace_back(
              stage::Leave{FailedPreconditionError("refused by the coordinator: {}", m.reason), m.exit_code});
        } else if constexpr (std::is_same_v<M, Goodbye>) {
          left_ = true;
          out.emplace_back(stage::Leave{OkStatus(), 0});
        } else if constexpr (requires { this->Handle(m, now, out); }) {
          if (OfThisGeneration(m.generation)) Handle(m, now, out);
        }
      },
      message);
}

bool StageCore::Impl::OfThisGeneration(const Generation& generation) {
  if (generation == generation_ || options_.broken == ProtocolBreak::kP16KeepsOldGeneration) return true;
  ++stats_.other_generation;
  return false;
}

void StageCore::Impl::Handle(const Reconfigure& config, Instant, stage::Outbox& out) {
  if (config.generation == generation_) {  // sent again: the answer was lost or is still to come
    if (confirmed_) out.emplace_back(stage::SendControl{ReconfigureDone{generation_}});
    return;
  }
  const bool same_coordinator = config.generation.coordinator_nonce == generation_.coordinator_nonce;
  if (same_coordinator && config.generation < generation_) return;
  generation_ = config.generation;
  options_.num_stages = config.num_stages;
  kv_block_size_ = std::max(config.kv_block_size, 1u);
  edges_ready_ = confirmed_ = false;
  while (intake_.front() != nullptr) out.emplace_back(stage::FreePayload{intake_.Take().payload});
  if (executing_ && run_) stale_input_ = run_->input();
  run_.reset();
  if (options_.broken != ProtocolBreak::kP16KeepsOldGeneration) {
    book_.Clear();
    plans_.Clear();
    launcher_.Clear();
  }
  plan_ask_at_.clear();
  prober_.Stop();
  const bool tiny = options_.broken == ProtocolBreak::kP17TinyRing;
  ring_.Reset(tiny ? 1 : size_t{config.num_slots} + config.launch_window + kLogRingMargin);  // P16, P17
  launcher_.OnDrafterChange(config.proposals.incarnation != Incarnation(0));
  out.emplace_back(stage::BuildEdges{config});
  if (config.proposals.incarnation != Incarnation(0)) {
    out.emplace_back(stage::FollowProposals{config.proposals});
  }
}

void StageCore::Impl::OnEdgesReady(const Generation& generation, stage::Outbox& out) {
  if (generation != generation_ || left_) return;
  edges_ready_ = true;
  Confirm(out);
}

// P16: only with an idle device and with edges that are up.
void StageCore::Impl::Confirm(stage::Outbox& out) {
  if (!edges_ready_ || executing_ || confirmed_) return;
  confirmed_ = true;
  out.emplace_back(stage::SendControl{ReconfigureDone{generation_}});
  if (last()) prober_.Start(Instant::min());
}

void StageCore::Impl::Handle(const StepPlan& plan, Instant now, stage::Outbox& out) {
  if (!plans_.Add(plan)) return;
  plan_ask_at_.erase(plan.step);
  for (const SequencePlan& sequence : plan.sequences) {
    // A plan of a newer lineage exists because the older one is dead; the running frame hears it too.
    book_.Note(sequence.sequence, sequence.lineage);
    Hint(sequence.sequence, out);
  }
  for (StepId missing : plans_.Missing()) AskForPlan(missing, Duration::zero(), now, out);
  Pump(now, out);
}

void StageCore::Impl::Handle(const Proposal& proposal, Instant now, stage::Outbox& out) {
  if (!first()) return;  // later stages may prefetch with it; the header is what counts
  launcher_.OnProposal(proposal);
  Pump(now, out);
}

void StageCore::Impl::Handle(const ReplayAnswer& answer, Instant now, stage::Outbox& out) {
  if (!first() || answer.state != ReplayState::kGone) return;
  launcher_.OnProposalGone(answer.step);
  Pump(now, out);
}

void StageCore::Impl::Handle(const Admission& admission, Instant now, stage::Outbox& out) {
  if (!last()) return;
  StageSequence& state = book_.Get(KeyOf(admission.sequence, admission.lineage));
  if (state.admitted) return;
  book_.Note(admission.sequence, admission.lineage);
  state.admitted = true;
  state.ids = admission.ids;
  state.refusals = admission.lineage.last_stage;  // P7
  out.emplace_back(stage::AdmitSequence{admission});
  Pump(now, out);
}

void StageCore::Impl::Handle(const Release& release, Instant, stage::Outbox& out) {
  const SequenceKey key{release.sequence, release.coordinator_counter};
  if (book_.Release(key) && last()) out.emplace_back(stage::ForgetSequence{key});
}

void StageCore::Impl::Handle(const Cancel& cancel, Instant now, stage::Outbox& out) {
  const bool raised = plans_.Names(cancel.sequence) ? book_.Note(cancel.sequence, cancel.lineage)
                                                    : book_.NoteIfKnown(cancel.sequence, cancel.lineage);
  if (!raised) return;
  Hint(cancel.sequence, out);
  Pump(now, out);  // what waited for its proposal need not any more
}

void StageCore::Impl::Handle(const Verdict& verdict, Instant now, stage::Outbox& out) {
  bool raised = false;
  for (const SequenceVerdict& sequence : verdict.sequences) {
    if (!book_.NoteIfKnown(sequence.sequence, sequence.lineage)) continue;
    Hint(sequence.sequence, out);
    raised = true;
  }
  if (raised) Pump(now, out);
}

void StageCore::Impl::Handle(const DrafterChange& change, Instant now, stage::Outbox& out) {
  const bool present = change.proposals.incarnation != Incarnation(0);
  launcher_.OnDrafterChange(present);
  out.emplace_back(stage::FollowProposals{change.proposals});
  if (present && last()) prober_.Start(now);  // P19: the newcomer must hear us, too
  Pump(now, out);
}

void StageCore::Impl::Handle(const Probe& probe, Instant, stage::Outbox& out) {
  out.emplace_back(stage::SendControl{ProbeSeen{probe.generation, probe.incarnation}});
}

void StageCore::Impl::Handle(const ProbeSeen& seen, Instant, stage::Outbox&) {
  if (seen.incarnation == incarnation_) prober_.Stop();
}

void StageCore::Impl::Hint(SequenceId sequence, stage::Outbox& out) {
  if (!executing_ || !run_) return;
  for (const SequenceKey& key : run_->MarkStale(sequence, book_)) {
    out.emplace_back(stage::RowsDied{executing_step_, key});
  }
}

void StageCore::Impl::OnReplayRequest(ReplayPeer peer, const ReplayRequest& request, stage::Outbox& out) {
  if (!OfThisGeneration(request.generation)) return;
  out.emplace_back(stage::AnswerReplay{peer, ring_.Answer(request, incarnation_)});
}

// ---------------------------------------------------------------- frames

void StageCore::Impl::OnFrame(FrameHeader header, PayloadHandle payload, Instant now, stage::Outbox& out) {
  if (left_ || !OfThisGeneration(header.generation)) {
    out.emplace_back(stage::FreePayload{payload});
    return;
  }
  if (Status status = intake_.Add({std::move(header), payload}); !status.ok()) return Leave(status, out);
  Pump(now, out);
}

void StageCore::Impl::Pump(Instant now, stage::Outbox& out) {
  if (!confirmed_) return;
  while (!executing_ && !left_) {
    if (!(first() ? LaunchOne(now, out) : TakeOneFrame(now, out))) return;
  }
}

bool StageCore::Impl::LaunchOne(Instant now, stage::Outbox& out) {
  const std::optional<Launcher::Decision> decision = launcher_.Next(now);
  if (!decision) return false;
  const StepPlan& plan = *plans_.Find(decision->step);
  if (last() && !AdmissionsAreHere(plan)) {
    AskForPlan(plan.step, kPlanPatience, now, out);
    return false;
  }
  if (options_.broken == ProtocolBreak::kP1DropsDeadSteps &&
      std::all_of(plan.sequences.begin(), plan.sequences.end(),
                  [&](const SequencePlan& s) { return book_.IsStale(s.sequence, s.lineage); })) {
    plans_.Finish(decision->step);
    return true;
  }
  StatusOr<FrameHeader> header = launcher_.BuildFrame(*decision);
  if (!header.ok()) {
    Leave(header.status(), out);
    return false;
  }
  if (decision->without_proposal) ++stats_.launched_without_proposal;
  out.emplace_back(stage::SendControl{Launched{generation_, decision->step, decision->without_proposal}});
  StartRun({*std::move(header), PayloadHandle(0)}, plan, now, out);
  return true;
}

bool StageCore::Impl::TakeOneFrame(Instant now, stage::Outbox& out) {
  const Frame* front = intake_.front();
  if (front == nullptr) return false;
  const StepPlan* plan = plans_.Find(front->header.step);
  StepPlan stand_in;
  if (plan == nullptr && options_.broken == ProtocolBreak::kP4RunsWithoutPlan) {
    stand_in.generation = generation_;
    stand_in.step = front->header.step;
    for (const FrameSequence& frame : front->header.sequences) {
      SequencePlan& sequence = stand_in.sequences.emplace_back();
      sequence.sequence = frame.sequence;
      sequence.lineage = frame.lineage;
      sequence.draws = frame.draws;
      sequence.draft_len_max = frame.row_count;
    }
    plan = &stand_in;
  }
  if (plan == nullptr || (last() && !AdmissionsAreHere(*plan))) {  // P4
    if (plans_.Finished(front->header.step)) {
      Leave(DataLossError("step {} came down the pipe twice", front->header.step), out);
      return false;
    }
    AskForPlan(front->header.step, kPlanPatience, now, out);
    return false;
  }
  StartRun(intake_.Take(), *plan, now, out);
  return true;
}

bool StageCore::Impl::AdmissionsAreHere(const StepPlan& plan) {
  return std::all_of(plan.sequences.begin(), plan.sequences.end(), [&](const SequencePlan& sequence) {
    if (book_.IsStale(sequence.sequence, sequence.lineage)) return true;  // dead rows need no history
    const StageSequence* state = book_.Find(KeyOf(sequence.sequence, sequence.lineage));
    return state != nullptr && state->admitted;
  });
}

void StageCore::Impl::StartRun(Frame frame, const StepPlan& plan, Instant now, stage::Outbox& out) {
  const FrameRunOptions options{last(), kv_block_size_, options_.broken};
  StatusOr<FrameRun> run = FrameRun::Start(std::move(frame), plan, options, book_);
  if (!run.ok()) return Leave(run.status(), out);
  run_.emplace(*std::move(run));
  run_started_ = now;
  executing_step_ = run_->header().step;
  plans_.Finish(executing_step_);
  plan_ask_at_.erase(executing_step_);
  stats_.rows_run += run_->rows_run();
  stats_.rows_dead += run_->rows_dead();
  stats_.position_mismatches += run_->positions_off();
  if (run_->has_work()) {
    executing_ = true;
    out.emplace_back(stage::Execute{run_->TakeWork()});
    return;
  }
  ExecutionResult nothing;
  nothing.generation = generation_;
  nothing.step = executing_step_;
  FinishRun(std::move(nothing), out);
}

void StageCore::Impl::OnExecuted(ExecutionResult result, Instant now, stage::Outbox& out) {
  executing_ = false;
  if (!run_ || result.generation != generation_) {  // of a generation that ended meanwhile
    out.emplace_back(stage::FreePayload{std::exchange(stale_input_, PayloadHandle(0))});
    out.emplace_back(stage::FreePayload{result.output});
    Confirm(out);
    return;
  }
  const Duration took = now - run_started_;
  stats_.busy += took;
  launcher_.OnStepMeasured(took);
  FinishRun(std::move(result), out);
  Pump(now, out);
}

void StageCore::Impl::FinishRun(ExecutionResult result, stage::Outbox& out) {
  ++stats_.steps_done;
  if (run_->input() != PayloadHandle(0)) out.emplace_back(stage::FreePayload{run_->input()});
  if (!last()) {
    out.emplace_back(stage::ForwardFrame{run_->MakeHeaderForNext(), result.output});
    run_.reset();
    return;
  }
  StatusOr<Verdict> verdict = run_->MakeVerdict(std::move(result), book_);
  run_.reset();
  if (!verdict.ok()) return Leave(verdict.status(), out);
  verdict->incarnation = incarnation_;
  const Verdict& published = ring_.Add(*std::move(verdict));
  out.emplace_back(stage::Publish{published});
}

void StageCore::Impl::Leave(Status reason, stage::Outbox& out) {
  left_ = true;
  out.emplace_back(stage::SendControl{Goodbye{std::string(Message(reason))}});
  out.emplace_back(stage::Leave{std::move(reason), kExitProtocol});
}

// ---------------------------------------------------------------- time

void StageCore::Impl::AskForPlan(StepId step, Duration patience, Instant now, stage::Outbox& out) {
  Instant& ask_at = plan_ask_at_.try_emplace(step, now + patience).first->second;
  if (now < ask_at) return;
  ask_at = now + options_.ask_again;
  ++stats_.plans_asked_again;
  out.emplace_back(stage::SendControl{PlanRequest{generation_, step}});
}

void StageCore::Impl::AskAgain(Instant now, stage::Outbox& out) {
  std::vector<StepId> due;
  for (const auto& [step, ask_at] : plan_ask_at_) {
    if (now >= ask_at) due.push_back(step);
  }
  std::sort(due.begin(), due.end());
  for (StepId step : due) AskForPlan(step, Duration::zero(), now, out);
  if (!first()) return;
  for (StepId step : launcher_.ProposalsToAsk(now)) {
    ++stats_.proposals_asked_again;
    out.emplace_back(stage::RequestReplay{{generation_, step}});
  }
}

void StageCore::Impl::OnTick(Instant now, stage::Outbox& out) {
  if (left_) return;
  if (booted_ == Instant::min()) booted_ = now;
  if (prober_.Due(now)) out.emplace_back(stage::Publish{Probe{generation_, incarnation_}});
  if (now >= heartbeat_next_) {
    heartbeat_next_ = now + options_.heartbeat_interval;
    Heartbeat beat;
    beat.generation = generation_;
    beat.steps_done = stats_.steps_done;
    beat.step_running = executing_ ? executing_step_ : StepId(0);
    beat.phase = phase_;
    const Duration busy = stats_.busy + (executing_ ? now - run_started_ : Duration::zero());
    beat.busy_micros = static_cast<uint64_t>(ToMicros(busy));
    beat.idle_micros = static_cast<uint64_t>(ToMicros(std::max(now - booted_ - busy, Duration::zero())));
    out.emplace_back(stage::SendControl{std::move(beat)});
  }
  if (!confirmed_) return;
  AskAgain(now, out);
  Pump(now, out);
}

Instant StageCore::Impl::NextDeadline() const {
  if (left_) return Instant::max();
  Instant next = std::min(heartbeat_next_, prober_.next());
  for (const auto& [step, ask_at] : plan_ask_at_) next = std::min(next, ask_at);
  if (first() && confirmed_) next = std::min(next, launcher_.NextDeadline(executing_));
  return next;
}

StageStats StageCore::Impl::stats() const {
  StageStats stats = stats_;
  stats.proposals_off_base = launcher_.proposals_off_base();
  stats.sequences_known = book_.size();
  stats.plans_pending = plans_.pending().size();
  return stats;
}

// ---------------------------------------------------------------- the public shell of it

StageCore::StageCore(StageOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
StageCore::~StageCore() = default;

void StageCore::OnMessage(const WireMessage& message, Instant now, stage::Outbox& out) {
  impl_->OnMessage(message, now, out);
}
void StageCore::OnEdgesReady(const Generation& generation, Instant, stage::Outbox& out) {
  impl_->OnEdgesReady(generation, out);
}
void StageCore::OnReplayRequest(ReplayPeer peer, const ReplayRequest& request, Instant, stage::Outbox& out) {
  impl_->OnReplayRequest(peer, request, out);
}
void StageCore::OnFrame(FrameHeader header, PayloadHandle payload, Instant now, stage::Outbox& out) {
  impl_->OnFrame(std::move(header), payload, now, out);
}
void StageCore::OnExecuted(ExecutionResult result, Instant now, stage::Outbox& out) {
  impl_->OnExecuted(std::move(result), now, out);
}
void StageCore::OnTick(Instant now, stage::Outbox& out) { impl_->OnTick(now, out); }
void StageCore::SetPhase(std::string phase) { impl_->set_phase(std::move(phase)); }
Instant StageCore::NextDeadline() const { return impl_->NextDeadline(); }
Generation StageCore::generation() const { return impl_->generation(); }
bool StageCore::executing() const { return impl_->executing(); }
StageStats StageCore::stats() const { return impl_->stats(); }

}  // namespace paceline
