// CoordinatorCore::Impl: the parts of the coordinator in one object. Private to the two files that define it:
// coordinator_core.cc (requests, membership, queries) and coordinator_steps.cc (plans and verdicts).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/protocol/verdict_feed.h"
#include "coordinator/coordinator_core.h"
#include "coordinator/kv/block_allocator.h"
#include "coordinator/membership/membership_core.h"
#include "coordinator/pipeline/step_ledger.h"
#include "coordinator/request/choice.h"
#include "coordinator/scheduler/step_planner.h"
#include "coordinator/speculation/draft_length.h"

namespace paceline {

class CoordinatorCore::Impl {
 public:
  explicit Impl(CoordinatorOptions options);

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

}  // namespace paceline
