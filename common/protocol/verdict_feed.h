// VerdictFeed: the verdict log in order, with its holes found (P8, P17). For subscribers that need every one.
//
// PUB loses messages silently, and re-requests go by step id; so the feed knows which steps are owed from the
// plans. `cursor` is the newest verdict that was handed out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/protocol/speculation.h"
#include "common/protocol/step_set.h"

namespace paceline {

class VerdictFeed {
 public:
  void Clear() { *this = VerdictFeed(); }
  // P19: where this subscriber starts; later calls are ignored.
  void StartBehind(uint64_t log_sequence) {
    if (!cursor_) cursor_ = log_sequence;
  }
  bool started() const { return cursor_.has_value(); }
  // Steps up to here belong to verdicts that came before.
  void StepsDoneBefore(StepId step) { seen_.RaiseFloor(step); }

  void Add(Verdict verdict) {
    seen_.Insert(verdict.step);
    if (cursor_ && verdict.log_sequence <= *cursor_) return;
    const uint64_t sequence = verdict.log_sequence;
    held_.try_emplace(sequence, std::move(verdict));
  }
  void Gone(StepId step) { seen_.Insert(step); }
  // The next one in order, if it is here.
  const Verdict* Peek() {
    if (!cursor_) return nullptr;
    while (!held_.empty() && held_.begin()->first <= *cursor_) held_.erase(held_.begin());
    if (held_.empty() || held_.begin()->first != *cursor_ + 1) return nullptr;
    return &held_.begin()->second;
  }
  // The same, handed out: once.
  std::optional<Verdict> Next() {
    if (Peek() == nullptr) return std::nullopt;
    Verdict verdict = std::move(held_.begin()->second);
    held_.erase(held_.begin());
    ++*cursor_;
    return verdict;
  }
  bool Seen(StepId step) const { return seen_.Contains(step); }
  // Goes on behind a verdict that its publisher has no more; what it said stays unknown.
  void SkipHole() {
    if (has_hole()) cursor_ = held_.begin()->first - 1;
  }
  // Later verdicts wait for a missing one.
  bool has_hole() const { return cursor_ && !held_.empty() && held_.begin()->first > *cursor_ + 1; }
  // Steps up to `newest` whose verdict was not seen.
  std::vector<StepId> Owed(StepId newest) const {
    std::vector<StepId> owed;
    for (StepId step = seen_.floor().Next(); step <= newest; step = step.Next()) {
      if (!seen_.Contains(step)) owed.push_back(step);
    }
    return owed;
  }

 private:
  std::optional<uint64_t> cursor_;
  std::map<uint64_t, Verdict> held_;
  StepSet seen_;
};

}  // namespace paceline
