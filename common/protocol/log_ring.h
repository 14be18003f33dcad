// LogRing: the last messages of a published log (verdicts, proposals), for those who missed one (P17).
//
// Owned by the publisher's core. `capacity` must be at least the steps that can be outstanding (slots plus
// launch window): then a subscriber that asks for a step it is owed never hears "gone". kLogRingMargin is for
// one that fell behind: the draft worker, whom no slot waits for.
//
//   ring.Add(verdict);
//   WireMessage answer = ring.Answer(request, incarnation);  // the verdict, or "not yet", or "gone"
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

#include "common/protocol/message.h"
#include "common/protocol/step_set.h"

namespace paceline {

inline constexpr size_t kLogRingMargin = 256;

template <typename T>
class LogRing {
 public:
  // P16: a new generation starts with an empty ring.
  void Reset(size_t capacity) {
    capacity_ = std::max<size_t>(capacity, 1);
    entries_.clear();
    published_.Clear();
    sequence_ = 0;
  }
  // Numbers the message (from 1) and keeps it.
  const T& Add(T entry) {
    entry.log_sequence = ++sequence_;
    published_.Insert(entry.step);
    if (entries_.size() == capacity_) entries_.pop_front();
    entries_.push_back(std::move(entry));
    return entries_.back();
  }
  WireMessage Answer(const ReplayRequest& request, Incarnation incarnation) const {
    for (const T& entry : entries_) {
      if (entry.step == request.step) return entry;
    }
    return ReplayAnswer{request.generation, request.step, incarnation,
                        published_.Contains(request.step) ? ReplayState::kGone : ReplayState::kNotYet};
  }
  bool Published(StepId step) const { return published_.Contains(step); }
  uint64_t sequence() const { return sequence_; }

 private:
  size_t capacity_ = 1;
  std::deque<T> entries_;
  StepSet published_;
  uint64_t sequence_ = 0;
};

}  // namespace paceline
