// PlanStore: the plans a worker has and has not yet used, and which ones it must have missed (P4).
//
// Steps count without gaps and the control lane is FIFO, so a plan that arrives after a hole means that the
// lane lost those in the hole (a reconnect). Owned by a core; a plan stays until Finish.
//
//   store.Add(plan 5);  store.Add(plan 7);   store.Missing() -> [6]
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "common/protocol/step_plan.h"
#include "common/protocol/step_set.h"

namespace paceline {

class PlanStore {
 public:
  // False for a plan that is here already or was finished: resent plans are harmless (P1).
  bool Add(StepPlan plan) {
    if (done_.Contains(plan.step)) return false;
    const StepId step = plan.step;
    if (step > newest_) newest_ = step;
    return plans_.try_emplace(step, std::move(plan)).second;
  }
  const StepPlan* Find(StepId step) const {
    const auto it = plans_.find(step);
    return it == plans_.end() ? nullptr : &it->second;
  }
  void Finish(StepId step) {
    plans_.erase(step);
    done_.Insert(step);
  }
  bool Finished(StepId step) const { return done_.Contains(step); }
  // A newcomer is not owed what was planned before it came.
  void StartBehind(StepId step) {
    done_.RaiseFloor(step);
    if (step > newest_) newest_ = step;
  }
  // Steps below the newest one that are neither here nor finished.
  std::vector<StepId> Missing() const {
    std::vector<StepId> missing;
    for (StepId step = done_.floor().Next(); step < newest_; step = step.Next()) {
      if (!done_.Contains(step) && !plans_.contains(step)) missing.push_back(step);
    }
    return missing;
  }
  // A plan that is here is about that sequence.
  bool Names(SequenceId sequence) const {
    for (const auto& [step, plan] : plans_) {
      for (const SequencePlan& planned : plan.sequences) {
        if (planned.sequence == sequence) return true;
      }
    }
    return false;
  }
  // In plan order.
  const std::map<StepId, StepPlan>& pending() const { return plans_; }
  StepId newest() const { return newest_; }
  void Clear() { *this = PlanStore(); }

 private:
  std::map<StepId, StepPlan> plans_;
  StepSet done_;
  StepId newest_;
};

}  // namespace paceline
