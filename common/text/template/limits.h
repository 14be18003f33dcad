// What one render of a chat template may cost. A template comes from a model file, so it is outside input.
//
// A step is a statement, a loop iteration, a macro call or an item that a filter visits; sixteen expression
// nodes count as one more. Work is bytes read or written by string and list operations, which a step count
// does not see. Whatever runs out first ends the render with RESOURCE_EXHAUSTED naming the limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace paceline {

struct RenderLimits {
  uint64_t steps_max = 500'000;
  size_t output_bytes_max = size_t{8} << 20;   // also the longest string a template may build
  size_t memory_bytes_max = size_t{64} << 20;  // live values, on top of the request's own size
  uint64_t work_bytes_max = uint64_t{1} << 29;

  // Nested statements, expressions and macro calls. At the limit a render needs under 2 MiB of native stack
  // (under 8 MiB with the address sanitizer): a thread that renders has at least that.
  uint32_t depth_max = 1200;

  // The instant strftime_now() prints, in local time; unset is the wall clock.
  std::optional<std::chrono::system_clock::time_point> now;
};

}  // namespace paceline
