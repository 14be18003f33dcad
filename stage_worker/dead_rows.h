// DeadRows: which sequences of the running step died after it was started. Set by the loop thread, asked by
// the compute thread between layers.
#pragma once

#include <mutex>
#include <set>
#include <utility>

#include "common/protocol/sequence_key.h"
#include "common/protocol/types.h"

namespace paceline {

class DeadRows {
 public:
  void Mark(StepId step, const SequenceKey& key) {
    std::lock_guard lock(mutex_);
    dead_.insert({step, key});
  }
  bool IsDead(StepId step, const SequenceKey& key) const {
    std::lock_guard lock(mutex_);
    return !dead_.empty() && dead_.contains({step, key});
  }
  // The step is over: what was said of it and of earlier ones is forgotten.
  void Forget(StepId step) {
    std::lock_guard lock(mutex_);
    std::erase_if(dead_, [&](const auto& entry) { return entry.first <= step; });
  }
  void Clear() {
    std::lock_guard lock(mutex_);
    dead_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::pair<StepId, SequenceKey>> dead_;
};

}  // namespace paceline
