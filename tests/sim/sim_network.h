// SimNetwork: the manual clock, the event queue and the lanes between nodes.
//
// A lane is FIFO with a random delay, as a ZeroMQ connection is; the urgent and the control lane of a pair
// are two lanes, so one overtakes the other. Every delivery is mixed into a hash: one seed, one hash.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "tests/sim/sim_random.h"

namespace paceline::sim {

enum class Lane : uint8_t { kControl, kUrgent, kPublish, kReplay, kTensor };

class SimNetwork {
 public:
  using NodeId = uint32_t;

  SimNetwork(uint64_t seed, Duration delay_min, Duration delay_max)
      : random_(seed), delay_min_(delay_min), delay_max_(delay_max) {}

  Instant now() const { return now_; }
  SimRandom& random() { return random_; }
  uint64_t hash() const { return hash_; }
  uint64_t events() const { return events_; }

  void At(Instant when, uint64_t tag, std::function<void()> run) {
    queue_.push({std::max(when, now_), ++order_, tag, std::move(run)});
  }
  // In order behind what was sent on this lane before.
  void Send(NodeId from, NodeId to, Lane lane, uint64_t tag, std::function<void()> deliver) {
    Instant& last = lane_end_[{from, to, lane}];
    last = std::max(last, now_ + Delay());
    At(last, tag, std::move(deliver));
  }
  // Out of order: a message that got lost on the way and comes much later.
  void SendLate(uint64_t tag, std::function<void()> deliver) {
    At(now_ + Delay() * 10 + random_.Micros(0, 30'000), tag, std::move(deliver));
  }
  Duration Delay() {
    const auto span = static_cast<uint64_t>((delay_max_ - delay_min_).count());
    return delay_min_ + Duration(static_cast<int64_t>(random_.Between(0, span)));
  }

  // False when nothing is left or the next event lies behind `until`.
  bool RunOne(Instant until) {
    if (queue_.empty() || queue_.top().when > until) {
      now_ = std::max(now_, until);
      return false;
    }
    Event event = queue_.top();
    queue_.pop();
    now_ = event.when;
    ++events_;
    hash_ = Mix(hash_, Mix(static_cast<uint64_t>(now_.time_since_epoch().count()), event.tag));
    event.run();
    return true;
  }

 private:
  struct Event {
    Instant when;
    uint64_t order = 0;
    uint64_t tag = 0;
    std::function<void()> run;
    bool operator>(const Event& other) const {
      return std::tie(when, order) > std::tie(other.when, other.order);
    }
  };

  SimRandom random_;
  Duration delay_min_;
  Duration delay_max_;
  Instant now_{};
  uint64_t order_ = 0;
  uint64_t events_ = 0;
  uint64_t hash_ = 0;
  std::map<std::tuple<NodeId, NodeId, Lane>, Instant> lane_end_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
};

}  // namespace paceline::sim
