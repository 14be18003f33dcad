#include "coordinator/pipeline/step_ledger.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace paceline {

void StepLedger::Reset(uint32_t num_slots, uint32_t launch_window) {
  *this = StepLedger();
  num_slots_ = num_slots;
  launch_window_ = launch_window;
  for (uint32_t i = num_slots; i > 0; --i) slots_free_.push_back(i - 1);
}

const StepPlan& StepLedger::Open(StepPlan plan, Instant now, Duration resend, Duration ask) {
  CHECK(CanOpen());
  newest_ = newest_.Next();
  plan.step = newest_;
  plan.slot = slots_free_.back();
  slots_free_.pop_back();
  ++unlaunched_;
  for (const SequencePlan& sequence : plan.sequences) {
    steps_of_[KeyOf(sequence.sequence, sequence.lineage)].push_back(plan.step);
  }
  LedgerStep& step = steps_[plan.step];
  step.plan = std::move(plan);
  step.resend_at = now + resend;
  step.ask_at = now + ask;
  step.ask_interval = ask;
  return step.plan;
}

void StepLedger::OnLaunched(StepId step) {
  const auto it = steps_.find(step);
  if (it == steps_.end() || it->second.launched) return;
  it->second.launched = true;
  it->second.resend_at = Instant::max();
  --unlaunched_;
}

std::vector<SequenceKey> StepLedger::Book(StepId step) {
  OnLaunched(step);
  const auto it = steps_.find(step);
  CHECK(it != steps_.end()) << "P1: step " << step << " is booked twice";
  std::vector<SequenceKey> out_of_pipe;
  for (const SequencePlan& sequence : it->second.plan.sequences) {
    const SequenceKey key = KeyOf(sequence.sequence, sequence.lineage);
    const auto of = steps_of_.find(key);
    CHECK(of != steps_of_.end()) << "P1: step " << step << " names a sequence twice";
    std::erase(of->second, step);
    if (!of->second.empty()) continue;
    steps_of_.erase(of);
    if (ended_.erase(key) > 0) out_of_pipe.push_back(key);
  }
  slots_free_.push_back(it->second.plan.slot);
  steps_.erase(it);
  ++booked_;
  return out_of_pipe;
}

const LedgerStep* StepLedger::Find(StepId step) const {
  const auto it = steps_.find(step);
  return it == steps_.end() ? nullptr : &it->second;
}

std::vector<StepId> StepLedger::StepsOf(const SequenceKey& key) const {
  const auto it = steps_of_.find(key);
  return it == steps_of_.end() ? std::vector<StepId>{} : it->second;
}

bool StepLedger::EndAttempt(const SequenceKey& key) {
  if (!steps_of_.contains(key)) return true;
  ended_.insert(key);
  return false;
}

void StepLedger::StopAwaiting() {
  for (auto& [id, step] : steps_) {
    for (SequencePlan& sequence : step.plan.sequences) sequence.awaits_proposal = false;
  }
}

std::vector<StepId> StepLedger::PlansToResend(Instant now, Duration again) {
  std::vector<StepId> due;
  for (auto& [id, step] : steps_) {
    if (now < step.resend_at) continue;
    step.resend_at = now + again;
    due.push_back(id);
  }
  return due;
}

std::vector<StepId> StepLedger::VerdictsToAsk(Instant now, Duration longest) {
  std::vector<StepId> due;
  for (auto& [id, step] : steps_) {
    if (now < step.ask_at) continue;
    step.ask_interval = std::min(step.ask_interval * 2, longest);
    step.ask_at = now + step.ask_interval;
    due.push_back(id);
  }
  return due;
}

void StepLedger::AskAllNow(Instant now) {
  for (auto& [id, step] : steps_) step.ask_at = std::min(step.ask_at, now);
}

Instant StepLedger::NextDeadline() const {
  Instant next = Instant::max();
  for (const auto& [id, step] : steps_) next = std::min({next, step.resend_at, step.ask_at});
  return next;
}

}  // namespace paceline
