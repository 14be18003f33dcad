// Prober: when a log's publisher repeats its Probe: from the moment its edges are up until the coordinator
// says that every subscriber has confirmed it. The interval doubles, so that an idle cluster stays quiet.
#pragma once

#include <algorithm>

#include "common/base/clock.h"

namespace paceline {

class Prober {
 public:
  Prober(Duration first, Duration longest) : first_(first), longest_(longest) {}

  void Start(Instant now) {
    next_ = now;
    interval_ = first_;
  }
  void Stop() { next_ = Instant::max(); }
  // True when a probe is due; then the next one is set.
  bool Due(Instant now) {
    if (now < next_) return false;
    next_ = now + interval_;
    interval_ = std::min(interval_ * 2, longest_);
    return true;
  }
  Instant next() const { return next_; }

 private:
  Duration first_;
  Duration longest_;
  Duration interval_{};
  Instant next_ = Instant::max();
};

}  // namespace paceline
