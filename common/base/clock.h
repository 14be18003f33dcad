// Time: all timers use the monotonic clock; the wall clock feeds only `created` fields and log stamps.
//
// Cores never read a clock: `now` is an argument of their handlers.
#pragma once

#include <chrono>

namespace paceline {

using Instant = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;
using namespace std::chrono_literals;  // NOLINT: 250ms reads better than Milliseconds(250)

inline Instant MonotonicNow() { return std::chrono::steady_clock::now(); }

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline int64_t ToMicros(Duration d) {
  return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
}

}  // namespace paceline
