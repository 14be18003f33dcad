#include "coordinator/coordinator_core.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "coordinator/coordinator_impl.h"
#include "coordinator/request/trim.h"

namespace paceline {
namespace {

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

CoordinatorCore::Impl::Impl(CoordinatorOptions options)
    : options_(WithDefaults(std::move(options))),
      membership_(options_, options_.num_slots),
      kv_(options_.broken),
      draft_length_(options_.num_speculative_tokens),
      planner_(PlannerOptions(options_), kv_, draft_length_) {}

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
  delta.was_running = it->second->running;
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

// ---------------------------------------------------------------- queries

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
