// Plans and verdicts: the half of the coordinator that follows the step protocol.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "coordinator/coordinator_impl.h"
#include "coordinator/request/trim.h"

namespace paceline {
namespace {

constexpr Duration kVerdictAskLongest = 800ms;

}  // namespace

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

// ---------------------------------------------------------------- time

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

}  // namespace paceline
