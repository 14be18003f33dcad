// State of one render that native functions share: the heap, the budgets, the clock.
//
// One thread, one render. Every loop over outside data calls Step or Work, so no template runs for long.
#pragma once

#include <ctime>

#include "common/text/template/limits.h"
#include "common/text/template/value.h"

namespace paceline::jinja {

class Runtime {
 public:
  explicit Runtime(const RenderLimits& limits)
      : heap(limits.memory_bytes_max, limits.output_bytes_max), limits_(limits) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Status Step(uint64_t count = 1) { return Spend(count * kTicksPerStep); }
  Status ExpressionNode() { return Spend(1); }

  Status Work(uint64_t bytes) {
    if (bytes > limits_.work_bytes_max - work_bytes_) return WorkExhausted();
    work_bytes_ += bytes;
    return OkStatus();
  }

  uint32_t depth_max() const { return limits_.depth_max; }
  uint64_t steps() const { return ticks_ / kTicksPerStep; }
  std::tm LocalTime() const;

  Heap heap;
  bool raised = false;  // the template itself called raise_exception

 private:
  static constexpr uint64_t kTicksPerStep = 16;

  Status Spend(uint64_t ticks) {
    ticks_ += ticks;
    if (ticks_ / kTicksPerStep > limits_.steps_max) return StepsExhausted();
    if (heap.exhausted()) return heap.status();
    return OkStatus();
  }
  Status StepsExhausted() const;
  Status WorkExhausted() const;

  const RenderLimits limits_;
  uint64_t ticks_ = 0;
  uint64_t work_bytes_ = 0;
};

// Counts native recursion (expressions, containers inside containers) against a limit.
class DepthGuard {
 public:
  DepthGuard(uint32_t& depth, uint32_t depth_max) : depth_(depth), fits_(++depth <= depth_max) {}
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  bool fits() const { return fits_; }

 private:
  uint32_t& depth_;
  const bool fits_;
};

// Containers may nest this deep where one is printed, compared or converted.
inline constexpr uint32_t kValueDepthMax = 128;
Status NestedTooDeep();

}  // namespace paceline::jinja
