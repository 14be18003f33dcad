#include "coordinator/coordinator_core.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/check.h"
#include "common/protocol/verdict_feed.h"
#include "coordinator/kv/block_allocator.h"
#include "coordinator/membership/membership_core.h"
#include "coordinator/pipeline/step_ledger.h"
#include "coordinator/request/choice.h"
#include "coordinator/request/trim.h"
#include "coordinator/scheduler/step_planner.h"
#include "coordinator/speculation/draft_length.h"

namespace paceline {
namespace {

constexpr Duration kVerdictAskLongest = 800ms;

StepPlannerOptions PlannerOptions(const CoordinatorOptions& options) {
  StepPlannerOptions planner;
  planner.num_slots = options.num_slots;
  planner.max_num_batched_tokens = options.max_num_batched_tokens;
  planner.frames_in_flight_max = options.frames_in_flight_max;
  planner.broken = options.broken;
  return planner;
}

CoordinatorOptions WithDefaults(CoordinatorOptions options) {
  if (options.num_slots == 0) options.num_slots = options.num_stages;
  return options;
}

}  // namespace

class CoordinatorCore::Impl {
 public:
  explicit Impl(CoordinatorOptions options)
      : options_(WithDefaults(std::move(options))),
        membership_(options_, options_.num_slots),
        kv_(options_.broken),
        draft_length_(options_.num_speculative_tokens),
        planner_(PlannerOptions(options_), kv_, draft_length_) {}

  Status OnSubmit(SequenceId sequence, GenerationRequest request, Instant now, coord::Outbox& out);
  void OnCancel(SequenceId sequence, Instant now, coord::Outbox& out);
  void OnPreempt(SequenceId sequence, Instant now, coord::Outbox& out);
  void OnMessage(const WorkerId& from, const WireMessage& message, Instant now, coord::Outbox& out);
  void OnLogMessage(const WireMessage& message, Instant now, coord::Outbox& out);
  void OnWorkerLost(const WorkerId& worker, std::string_view reason, Instant now, coord::Outbox& out);
  void Shutdown(std::string_view reason, Instant now, coord::Outbox& out);
  void OnTick(Instant now, coord::Outbox& out);
  Instant NextDeadline() const;

  void Drain() { draining_ = true; }
  bool idle() const;
  CoordinatorStats stats() const;
  const Choice* Find(SequenceId sequence) const;
  const MembershipCore& membership() const { return membership_; }

 private:
  // Membership changed; then plans what can be planned.
  void React(Instant now, coord::Outbox& out);
  void OnServing();
  void OnStageLost(const std::string& reason, coord::Outbox& out);
  void OnDrafterReady(coord::Outbox& out);

  // Life of a choice.
  Status CheckFits(const GenerationRequest& request) const;
  void AdmitWaiting(coord::Outbox& out);
  Admission AdmissionOf(const Choice& choice) const;
  void EndAttempt(Choice& choice, coord::Outbox& out);
  void SendRelease(const SequenceKey& key, coord::Outbox& out);
  void Preempt(Choice& choice, coord::Outbox& out);
  bool PreemptYoungerThan(const Choice& needy, const std::vector<Choice*>& keep, coord::Outbox& out);
  void Finish(Choice& choice, GenerationDelta delta, coord::Outbox& out);
  void FailAll(const Status& error, coord::Outbox& out);

  // Steps.
  void Schedule(Instant now, coord::Outbox& out);
  void SendPlan(const StepPlan& plan, coord::Outbox& out);
  void AnswerPlanRequest(const WorkerId& from, StepId step, coord::Outbox& out);
  void BookVerdict(Verdict verdict, Instant now, coord::Outbox& out);
  Status ApplySequence(const SequencePlan& plan, StepId step, SequenceVerdict verdict, coord::Outbox& out);
  Status Commit(Choice& choice, SequenceVerdict verdict, bool continuation, coord::Outbox& out);
  void UpdateFrontier(Choice& choice, StepId step, const SequenceVerdict& verdict);

  void SendToAll(const WireMessage& message, bool urgent, coord::Outbox& out) const;

  CoordinatorOptions options_;
  MembershipCore membership_;
  BlockAllocator kv_;
  StepLedger ledger_;
  VerdictFeed feed_;
  DraftLength draft_length_;
  StepPlanner planner_;
  std::map<SequenceId, std::unique_ptr<Choice>> choices_;
  std::vector<Choice*> running_;  // by arrival
  std::vector<Choice*> waiting_;  // by arrival
  uint64_t arrivals_ = 0;
  uint64_t verdicts_applied_ = 0;  // log sequence of the newest one that was applied
  bool draining_ = false;
  bool scheduling_ = false;
  bool drafter_joined_ = false;  // its admissions went out
  AcceptanceStats acceptance_;
  CoordinatorStats stats_;
};

// ---------------------------------------------------------------- requests

Status CoordinatorCore::Impl::CheckFits(const GenerationRequest& request) const {
  if (request.prompt.empty()) return InvalidArgumentError("the prompt has no tokens");
  if (request.sampling.max_tokens == 0) return InvalidArgumentError("max_tokens is 0; ask for at least 1");
  if (request.prompt.size() >= options_.max_model_len) {
    return InvalidArgumentError("the prompt has {} tokens, the context {}; shorten it to at most {}",
                                request.prompt.size(), options_.max_model_len, options_.max_model_len - 1);
  }
  const uint32_t prompt_len = static_cast<uint32_t>(request.prompt.size());
  const uint64_t rows = TotalLenMax(request.sampling, prompt_len, options_.max_model_len) - 1;
  const uint64_t size = membership_.kv_block_size();
  const uint64_t need = (rows + size - 1) / size;
  if (need > kv_.total()) {
    return InvalidArgumentError(
        "kv: {} tokens need {} blocks of {}, the cluster has {}; ask for fewer tokens", rows, need, size,
        kv_.total());
  }
  return OkStatus();
}

Status CoordinatorCore::Impl::OnSubmit(SequenceId sequence, GenerationRequest request, Instant now,
                                       coord::Outbox& out) {
  if (draining_) return UnavailableError("the server is shutting down and takes no new requests");
  if (!membership_.serving()) return membership_.Readiness();
  RETURN_IF_ERROR(CheckFits(request));
  if (waiting_.size() >= options_.max_queued_requests) {
    return ResourceExhaustedError("{} requests are waiting, --max-queued-requests is {}", waiting_.size(),
                                  options_.max_queued_requests);
  }
  CHECK(!choices_.contains(sequence)) << "sequence " << sequence << " was submitted twice";
  auto choice = std::make_unique<Choice>();
  choice->sequence = sequence;
  choice->arrival = ++arrivals_;
  choice->ids = request.prompt;
  choice->prompt_len = static_cast<uint32_t>(request.prompt.size());
  choice->total_len_max = TotalLenMax(request.sampling, choice->prompt_len, options_.max_model_len);
  choice->lineage = {1, 0};
  choice->request = std::move(request);
  stats_.prompt_tokens += choice->prompt_len;
  waiting_.push_back(choice.get());
  choices_.emplace(sequence, std::move(choice));
  Schedule(now, out);
  return OkStatus();
}

void CoordinatorCore::Impl::OnCancel(SequenceId sequence, Instant now, coord::Outbox& out) {
  const auto it = choices_.find(sequence);
  if (it == choices_.end()) return;
  GenerationDelta delta;
  delta.finish = FinishReason::kCancelled;
  Finish(*it->second, std::move(delta), out);
  Schedule(now, out);
}

void CoordinatorCore::Impl::OnPreempt(SequenceId sequence, Instant now, coord::Outbox& out) {
  const auto it = choices_.find(sequence);
  if (it == choices_.end() || !it->second->running) return;
  Preempt(*it->second, out);
  Schedule(now, out);
}

const Choice* CoordinatorCore::Impl::Find(SequenceId sequence) const {
  const auto it = choices_.find(sequence);
  return it == choices_.end() ? nullptr : it->second.get();
}

Admission CoordinatorCore::Impl::AdmissionOf(const Choice& choice) const {
  Admission admission;
  admission.generation = membership_.generation();
  admission.sequence = choice.sequence;
  admission.lineage = choice.lineage;
  admission.ids = choice.ids;
  admission.prompt_len = choice.prompt_len;
  admission.sampling = choice.request.sampling;
  admission.verdict_log_sequence = verdicts_applied_;
  return admission;
}

void CoordinatorCore::Impl::AdmitWaiting(coord::Outbox& out) {
  while (!waiting_.empty() && running_.size() < options_.max_num_seqs && !planner_.starving()) {
    Choice& choice = *waiting_.front();
    // Room for its rows so far, and a block for each that runs already: else it would be preempted at once.
    const uint64_t size = membership_.kv_block_size();
    const uint64_t need = (choice.committed_len() + size - 1) / size;
    if (!running_.empty() && need + running_.size() > kv_.free()) return;
    waiting_.erase(waiting_.begin());
    choice.running = true;
    const auto at = std::upper_bound(running_.begin(), running_.end(), choice.arrival,
                                     [](uint64_t arrival, const Choice* c) { return arrival < c->arrival; });
    running_.insert(at, &choice);
    const Admission admission = AdmissionOf(choice);
    out.emplace_back(coord::Send{membership_.stages().back(), admission, false});
    if (drafter_joined_) out.emplace_back(coord::Send{*membership_.drafter(), admission, false});
  }
}

// The attempt is over: whatever of it is in the pipe is dead, and its blocks are free once that is through.
void CoordinatorCore::Impl::EndAttempt(Choice& choice, coord::Outbox& out) {
  if (!choice.running) return;
  const SequenceKey key = choice.key();
  std::vector<StepId> steps = ledger_.StepsOf(key);
  choice.running = false;
  std::erase(running_, &choice);
  ++choice.lineage.coordinator;  // P7
  choice.lineage.last_stage = 0;
  if (!steps.empty()) {
    SendToAll(Cancel{membership_.generation(), choice.sequence, choice.lineage}, /*urgent=*/true, out);
  }
  kv_.GiveBack(choice.blocks, std::move(steps));  // P3
  choice.blocks.clear();
  choice.blocks_confirmed = 0;
  choice.rows_end = 0;
  choice.out.clear();
  choice.run_ahead_paused = false;
  const bool out_of_pipe = ledger_.EndAttempt(key);
  if (out_of_pipe || options_.broken == ProtocolBreak::kP5ReleasesEarly) SendRelease(key, out);  // P5
}

void CoordinatorCore::Impl::SendRelease(const SequenceKey& key, coord::Outbox& out) {
  SendToAll(Release{membership_.generation(), key.sequence, key.counter}, /*urgent=*/false, out);
}

void CoordinatorCore::Impl::Preempt(Choice& choice, coord::Outbox& out) {
  EndAttempt(choice, out);
  ++stats_.preemptions;
  const auto at = std::upper_bound(waiting_.begin(), waiting_.end(), choice.arrival,
                                   [](uint64_t arrival, const Choice* c) { return arrival < c->arrival; });
  waiting_.insert(at, &choice);
}

bool CoordinatorCore::Impl::PreemptYoungerThan(const Choice& needy, const std::vector<Choice*>& keep,
                                               coord::Outbox& out) {
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    Choice* victim = *it;
    if (victim->arrival <= needy.arrival) return false;
    if (victim->blocks.empty() || std::find(keep.begin(), keep.end(), victim) != keep.end()) continue;
    Preempt(*victim, out);
    return true;
  }
  return false;
}

void CoordinatorCore::Impl::Finish(Choice& choice, GenerationDelta delta, coord::Outbox& out) {
  EndAttempt(choice, out);  // P9
  std::erase(waiting_, &choice);
  switch (delta.finish) {
    case FinishReason::kStop:
      ++stats_.finished_stop;
      break;
    case FinishReason::kLength:
      ++stats_.finished_length;
      break;
    case FinishReason::kCancelled:
      ++stats_.finished_cancelled;
      break;
    default:
      ++stats_.finished_error;
      break;
  }
  delta.num_drafted = choice.num_drafted;
  delta.num_accepted = choice.num_accepted;
  delta.num_steps = choice.num_steps;
  out.emplace_back(coord::Deliver{choice.sequence, std::move(delta)});
  choices_.erase(choice.sequence);
}

void CoordinatorCore::Impl::FailAll(const Status& error, coord::Outbox& out) {
  while (!choices_.empty()) {
    GenerationDelta delta;
    delta.finish = FinishReason::kError;
    delta.error = error;
    Finish(*choices_.begin()->second, std::move(delta), out);
  }
}

// ---------------------------------------------------------------- membership

void CoordinatorCore::Impl::React(Instant now, coord::Outbox& out) {
  for (const MembershipEvent& event : membership_.TakeEvents()) {
    switch (event.kind) {
      case MembershipEvent::Kind::kServing:
        OnServing();
        break;
      case MembershipEvent::Kind::kStageLost:
        OnStageLost(event.reason, out);
        break;
      case MembershipEvent::Kind::kDrafterReady:
        OnDrafterReady(out);
        break;
      case MembershipEvent::Kind::kDrafterLost:
        drafter_joined_ = false;
        ledger_.StopAwaiting();
        break;
    }
  }
  Schedule(now, out);
}

// P16: a generation starts with nothing in the pipe and all blocks free.
void CoordinatorCore::Impl::OnServing() {
  kv_.Reset(membership_.kv_blocks());
  planner_.SetBlockSize(membership_.kv_block_size());
  ledger_.Reset(options_.num_slots, options_.launch_window);
  feed_.Clear();
  feed_.StartBehind(0);
  verdicts_applied_ = 0;
  drafter_joined_ = false;
}

void CoordinatorCore::Impl::OnStageLost(const std::string& reason, coord::Outbox& out) {
  FailAll(UnavailableError("{}", reason), out);
  ledger_.Reset(0, 0);
  kv_.Reset(0);
  drafter_joined_ = false;
}

// P19: admissions name the verdicts they include; plans that are out tell which verdicts are still to come.
void CoordinatorCore::Impl::OnDrafterReady(coord::Outbox& out) {
  const WorkerId drafter = *membership_.drafter();
  drafter_joined_ = true;
  for (const Choice* choice : running_) out.emplace_back(coord::Send{drafter, AdmissionOf(*choice), false});
  ledger_.StopAwaiting();
  for (const auto& [step, entry] : ledger_.open()) out.emplace_back(coord::Send{drafter, entry.plan, false});
}

void CoordinatorCore::Impl::OnMessage(const WorkerId& from, const WireMessage& message, Instant now,
                                      coord::Outbox& out) {
  membership_.OnMessage(from, message, now, out);
  if (const auto* launched = std::get_if<Launched>(&message)) {
    if (launched->generation != membership_.generation()) {
      ++stats_.other_generation;
    } else {
      ledger_.OnLaunched(launched->step);
      if (launched->without_proposal) ++stats_.launched_without_proposal;
    }
  } else if (const auto* request = std::get_if<PlanRequest>(&message)) {
    if (request->generation != membership_.generation()) {
      ++stats_.other_generation;
    } else {
      AnswerPlanRequest(from, request->step, out);
    }
  }
  React(now, out);
}

void CoordinatorCore::Impl::OnWorkerLost(const WorkerId& worker, std::string_view reason, Instant now,
                                         coord::Outbox& out) {
  membership_.OnWorkerLost(worker, reason, now, out);
  React(now, out);
}

void CoordinatorCore::Impl::Shutdown(std::string_view reason, Instant, coord::Outbox& out) {
  draining_ = true;
  FailAll(UnavailableError("{}", reason), out);
  membership_.SayGoodbye(reason, out);
}

void CoordinatorCore::Impl::SendToAll(const WireMessage& message, bool urgent, coord::Outbox& out) const {
  if (!membership_.serving()) return;
  for (const WorkerId& stage : membership_.stages()) out.emplace_back(coord::Send{stage, message, urgent});
  if (drafter_joined_) {
    if (const auto drafter = membership_.drafter()) out.emplace_back(coord::Send{*drafter, message, urgent});
  }
}

// ---------------------------------------------------------------- steps

void CoordinatorCore::Impl::Schedule(Instant now, coord::Outbox& out) {
  if (!membership_.serving() || scheduling_) return;
  scheduling_ = true;
  const auto preempt = [&](const Choice& needy, const std::vector<Choice*>& keep) {
    return PreemptYoungerThan(needy, keep, out);
  };
  while (ledger_.CanOpen()) {
    AdmitWaiting(out);
    auto planned = planner_.Make(running_, drafter_joined_, preempt);
    if (!planned) break;
    planned->plan.generation = membership_.generation();
    const StepPlan& plan =
        ledger_.Open(std::move(planned->plan), now, options_.plan_resend, options_.ask_again);
    for (Choice* choice : planned->members) choice->out.back().step = plan.step;
    ++stats_.steps_planned;
    SendPlan(plan, out);
  }
  scheduling_ = false;
}

void CoordinatorCore::Impl::SendPlan(const StepPlan& plan, coord::Outbox& out) {
  SendToAll(plan, /*urgent=*/false, out);
}

void CoordinatorCore::Impl::AnswerPlanRequest(const WorkerId& from, StepId step, coord::Outbox& out) {
  if (step > ledger_.newest()) return;
  const LedgerStep* entry = ledger_.Find(step);
  if (entry == nullptr) {
    // Booked: only a draft worker that came later can ask. It need not care for that step.
    out.emplace_back(coord::Send{from, StepPlan{membership_.generation(), step, 0, {}}, false});
    return;
  }
  std::vector<Cancel> ended;
  for (const SequencePlan& sequence : entry->plan.sequences) {
    const auto it = choices_.find(sequence.sequence);
    const bool current =
        it != choices_.end() && it->second->lineage.coordinator == sequence.lineage.coordinator;
    if (current) {
      out.emplace_back(coord::Send{from, AdmissionOf(*it->second), false});
    } else {
      ended.push_back({membership_.generation(), sequence.sequence, {sequence.lineage.coordinator + 1, 0}});
    }
  }
  out.emplace_back(coord::Send{from, entry->plan, false});
  for (const Cancel& cancel : ended) out.emplace_back(coord::Send{from, cancel, false});
}

void CoordinatorCore::Impl::OnLogMessage(const WireMessage& message, Instant now, coord::Outbox& out) {
  if (const auto* probe = std::get_if<Probe>(&message)) {
    membership_.OnProbe(*probe, now, out);
    return React(now, out);
  }
  if (const auto* answer = std::get_if<ReplayAnswer>(&message)) {
    const bool lost = answer->generation == membership_.generation() && answer->state == ReplayState::kGone &&
                      ledger_.Find(answer->step) != nullptr && !feed_.Seen(answer->step);
    if (lost) {  // P17
      membership_.OnStageFault(fmt::format("the verdict of step {} is gone from its ring", answer->step), now,
                               out);
      React(now, out);
    }
    return;
  }
  const auto* verdict = std::get_if<Verdict>(&message);
  if (verdict == nullptr) return;
  if (verdict->generation != membership_.generation() || !membership_.serving()) {
    ++stats_.other_generation;
    return;
  }
  if (options_.broken == ProtocolBreak::kP8AppliesOnArrival) {
    if (ledger_.Find(verdict->step) != nullptr) BookVerdict(*verdict, now, out);
    return React(now, out);
  }
  feed_.Add(*verdict);
  while (membership_.serving()) {
    std::optional<Verdict> next = feed_.Next();  // P8: in log order
    if (!next) break;
    BookVerdict(*std::move(next), now, out);
  }
  if (feed_.has_hole()) ledger_.AskAllNow(now);
  React(now, out);
}

void CoordinatorCore::Impl::BookVerdict(Verdict verdict, Instant now, coord::Outbox& out) {
  const LedgerStep* entry = ledger_.Find(verdict.step);
  const bool fits = entry != nullptr && entry->plan.sequences.size() == verdict.sequences.size();
  if (!fits) {
    return membership_.OnStageFault(
        fmt::format("P1: the verdict of step {} has {} sequences and does not fit a plan that is out",
                    verdict.step, verdict.sequences.size()),
        now, out);
  }
  verdicts_applied_ = std::max(verdicts_applied_, verdict.log_sequence);
  ++stats_.verdicts_booked;
  for (size_t i = 0; i < verdict.sequences.size(); ++i) {
    const SequencePlan plan = entry->plan.sequences[i];
    Status status = ApplySequence(plan, verdict.step, std::move(verdict.sequences[i]), out);
    if (!status.ok()) return membership_.OnStageFault(Message(status), now, out);
  }
  for (const SequenceKey& key : ledger_.Book(verdict.step)) {
    if (options_.broken != ProtocolBreak::kP5ReleasesEarly) SendRelease(key, out);
  }
  kv_.OnStepBooked(verdict.step);
}

Status CoordinatorCore::Impl::ApplySequence(const SequencePlan& plan, StepId step, SequenceVerdict verdict,
                                            coord::Outbox& out) {
  if (verdict.sequence != plan.sequence || verdict.lineage.coordinator != plan.lineage.coordinator) {
    return DataLossError("step {}: the verdict is about seq {}, the plan about seq {}", step,
                         verdict.sequence, plan.sequence);
  }
  const auto it = choices_.find(plan.sequence);
  // P8: only for its coordinator counter.
  if (it == choices_.end() || it->second->lineage.coordinator != plan.lineage.coordinator) {
    stats_.wasted_past_end += verdict.ids.size();
    return OkStatus();
  }
  Choice& choice = *it->second;
  if (options_.broken == ProtocolBreak::kP8DropsStaleLineage && verdict.lineage != plan.lineage) {
    return OkStatus();
  }
  if (verdict.failure != RowFailure::kNone) {
    GenerationDelta delta;
    delta.finish = FinishReason::kError;
    delta.error = DataLossError("the model's logits at position {} are not finite", verdict.first_position);
    Finish(choice, std::move(delta), out);
    return OkStatus();
  }
  if (!verdict.ids.empty() && verdict.first_position != choice.committed_len()) {  // P8
    return DataLossError("P8: seq {} has {} committed ids, the verdict of step {} begins at {}",
                         choice.sequence, choice.committed_len(), step, verdict.first_position);
  }
  choice.blocks_confirmed = std::max(
      choice.blocks_confirmed, plan.blocks.len_before + static_cast<uint32_t>(plan.blocks.appended.size()));
  UpdateFrontier(choice, step, verdict);
  if (plan.continuation && plan.known_ids.empty()) {
    choice.run_ahead_paused = verdict.num_drafted == 0;
  } else {
    choice.run_ahead_paused = false;
  }
  return Commit(choice, std::move(verdict), plan.continuation, out);
}

void CoordinatorCore::Impl::UpdateFrontier(Choice& choice, StepId step, const SequenceVerdict& verdict) {
  if (verdict.lineage > choice.lineage) {  // a refusal: what is out of the old lineage is dead (P12)
    choice.lineage = verdict.lineage;
    choice.out.clear();
  } else {
    std::erase_if(choice.out, [&](const Choice::Out& out) { return out.step == step; });
  }
  choice.rows_end = verdict.rows_end;
}

Status CoordinatorCore::Impl::Commit(Choice& choice, SequenceVerdict verdict, bool continuation,
                                     coord::Outbox& out) {
  const TrimLimits limits{choice.prompt_len, choice.output_len(), options_.max_model_len};
  const TrimResult trim = TrimRun(choice.request.sampling, limits, verdict.ids, choice.request.text.get());
  const size_t drawn = verdict.ids.size();
  // A continuation's first row repeats an id that the frame before had drawn.
  const size_t accepted_max = trim.kept + (continuation ? 1 : 0);
  const uint32_t accepted = static_cast<uint32_t>(std::min<size_t>(verdict.num_accepted, accepted_max));
  acceptance_.Add(verdict.num_drafted, accepted);
  stats_.wasted_rejected += verdict.num_drafted - std::min(verdict.num_accepted, verdict.num_drafted);
  stats_.wasted_past_end += drawn - trim.kept;
  choice.num_drafted += verdict.num_drafted;
  choice.num_accepted += accepted;
  if (drawn == 0) return OkStatus();
  ++choice.num_steps;

  if (options_.broken != ProtocolBreak::kP9IgnoresTrim) {
    verdict.ids.resize(trim.kept);
    if (!verdict.logprobs.empty()) verdict.logprobs.resize(trim.kept);
  }
  stats_.generation_tokens += verdict.ids.size();
  choice.ids.insert(choice.ids.end(), verdict.ids.begin(), verdict.ids.end());
  GenerationDelta delta;
  delta.ids = std::move(verdict.ids);
  delta.logprobs = std::move(verdict.logprobs);
  delta.finish = trim.finish;
  delta.stop_token = trim.stop_token;
  delta.stop_string = trim.stop_string;
  if (choice.request.text) delta.text = choice.request.text->TakeText(trim.finish != FinishReason::kNone);
  if (trim.finish != FinishReason::kNone) {
    Finish(choice, std::move(delta), out);
    return OkStatus();
  }
  delta.num_drafted = choice.num_drafted;
  delta.num_accepted = choice.num_accepted;
  delta.num_steps = choice.num_steps;
  out.emplace_back(coord::Deliver{choice.sequence, std::move(delta)});
  return OkStatus();
}

// ---------------------------------------------------------------- time and queries

void CoordinatorCore::Impl::OnTick(Instant now, coord::Outbox& out) {
  membership_.OnTick(now, out);
  if (membership_.serving()) {
    for (StepId step : ledger_.PlansToResend(now, options_.plan_resend)) {
      ++stats_.plans_resent;
      SendPlan(ledger_.Find(step)->plan, out);
    }
    for (StepId step : ledger_.VerdictsToAsk(now, kVerdictAskLongest)) {
      if (feed_.Seen(step)) continue;
      ++stats_.verdicts_asked_again;
      out.emplace_back(coord::RequestReplay{{membership_.generation(), step}});
    }
  }
  React(now, out);
}

Instant CoordinatorCore::Impl::NextDeadline() const {
  return std::min(membership_.NextDeadline(), ledger_.NextDeadline());
}

bool CoordinatorCore::Impl::idle() const {
  if (!choices_.empty() || !ledger_.open().empty()) return false;
  if (!membership_.serving()) return true;
  CHECK_EQ(ledger_.newest().value(), ledger_.booked()) << "P1: plans sent and verdicts booked";
  CHECK_EQ(ledger_.slots_free(), ledger_.num_slots()) << "P1: slots";
  CHECK_EQ(ledger_.credits_free(), ledger_.launch_window()) << "P1: credits";
  CHECK_EQ(kv_.free(), kv_.total()) << "P3: blocks";
  return true;
}

CoordinatorStats CoordinatorCore::Impl::stats() const {
  CoordinatorStats stats = stats_;
  stats.requests_running = running_.size();
  stats.requests_waiting = waiting_.size();
  stats.kv_blocks_total = kv_.total();
  stats.kv_blocks_free = kv_.free();
  stats.slots_free = ledger_.slots_free();
  stats.drafts = acceptance_.drafts;
  stats.draft_tokens = acceptance_.draft_tokens;
  stats.accepted_tokens = acceptance_.accepted_tokens;
  stats.accepted_per_position = acceptance_.accepted_per_position;
  stats.generations = membership_.generations();
  return stats;
}

// ---------------------------------------------------------------- the public shell of it

CoordinatorCore::CoordinatorCore(CoordinatorOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
CoordinatorCore::~CoordinatorCore() = default;

Status CoordinatorCore::OnSubmit(SequenceId sequence, GenerationRequest request, Instant now,
                                 coord::Outbox& out) {
  return impl_->OnSubmit(sequence, std::move(request), now, out);
}
void CoordinatorCore::OnCancel(SequenceId sequence, Instant now, coord::Outbox& out) {
  impl_->OnCancel(sequence, now, out);
}
void CoordinatorCore::OnPreempt(SequenceId sequence, Instant now, coord::Outbox& out) {
  impl_->OnPreempt(sequence, now, out);
}
void CoordinatorCore::OnMessage(const WorkerId& from, const WireMessage& message, Instant now,
                                coord::Outbox& out) {
  impl_->OnMessage(from, message, now, out);
}
void CoordinatorCore::OnLogMessage(const WireMessage& message, Instant now, coord::Outbox& out) {
  impl_->OnLogMessage(message, now, out);
}
void CoordinatorCore::OnWorkerLost(const WorkerId& worker, std::string_view reason, Instant now,
                                   coord::Outbox& out) {
  impl_->OnWorkerLost(worker, reason, now, out);
}
void CoordinatorCore::Drain() { impl_->Drain(); }
void CoordinatorCore::Shutdown(std::string_view reason, Instant now, coord::Outbox& out) {
  impl_->Shutdown(reason, now, out);
}
void CoordinatorCore::OnTick(Instant now, coord::Outbox& out) { impl_->OnTick(now, out); }
Instant CoordinatorCore::NextDeadline() const { return impl_->NextDeadline(); }
Status CoordinatorCore::Readiness() const { return impl_->membership().Readiness(); }
bool CoordinatorCore::drafter_ready() const { return impl_->membership().drafter_ready(); }
Generation CoordinatorCore::generation() const { return impl_->membership().generation(); }
bool CoordinatorCore::idle() const { return impl_->idle(); }
CoordinatorStats CoordinatorCore::stats() const { return impl_->stats(); }
std::vector<WorkerStatus> CoordinatorCore::workers(Instant now) const {
  return impl_->membership().workers(now);
}
const std::vector<TokenId>* CoordinatorCore::committed_ids(SequenceId sequence) const {
  const Choice* choice = impl_->Find(sequence);
  return choice == nullptr ? nullptr : &choice->ids;
}

}  // namespace paceline
