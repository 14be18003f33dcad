// StepSet: which steps of a generation are done. Steps count from 1 without gaps and finish nearly in order,
// so the set is a floor and the few members above it; memory is bounded by the steps that can be out.
#pragma once

#include <set>

#include "common/protocol/types.h"

namespace paceline {

class StepSet {
 public:
  // False when it was in the set already.
  bool Insert(StepId step) {
    if (Contains(step)) return false;
    above_.insert(step);
    while (!above_.empty() && *above_.begin() == floor_.Next()) {
      floor_ = *above_.begin();
      above_.erase(above_.begin());
    }
    return true;
  }
  bool Contains(StepId step) const { return step <= floor_ || above_.contains(step); }
  // Everything up to here is taken as done: a newcomer starts behind what it never was owed.
  void RaiseFloor(StepId step) {
    if (step <= floor_) return;
    floor_ = step;
    above_.erase(above_.begin(), above_.upper_bound(step));
    while (!above_.empty() && *above_.begin() == floor_.Next()) {
      floor_ = *above_.begin();
      above_.erase(above_.begin());
    }
  }
  // The largest step such that it and all before it are done.
  StepId floor() const { return floor_; }
  void Clear() { *this = StepSet(); }

 private:
  StepId floor_;
  std::set<StepId> above_;
};

}  // namespace paceline
