// How far to speculate, and how well it went.
//
// DraftLength is the seam where a controller that measures step times and acceptance comes in; this one is
// fixed (num_speculative_tokens). AcceptanceStats counts what was kept, so that every counter agrees with the
// trimmed answer (B028).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/protocol/types.h"

namespace paceline {

class DraftLength {
 public:
  explicit DraftLength(uint32_t num_speculative_tokens) : fixed_(num_speculative_tokens) {}

  // Most drafts behind a frame whose known rows end at `end` in a sequence whose rows lie below `rows_limit`.
  uint32_t For(Position end, Position rows_limit) const {
    return end >= rows_limit ? 0 : std::min(fixed_, rows_limit - end);
  }
  // Without that bound.
  uint32_t configured() const { return fixed_; }

 private:
  uint32_t fixed_;
};

struct AcceptanceStats {
  uint64_t drafts = 0;  // steps of a sequence with drafted rows
  uint64_t draft_tokens = 0;
  uint64_t accepted_tokens = 0;
  std::vector<uint64_t> accepted_per_position;  // [i]: how often the draft at i of its frame was accepted

  void Add(uint32_t num_drafted, uint32_t num_accepted) {
    if (num_drafted == 0) return;
    ++drafts;
    draft_tokens += num_drafted;
    accepted_tokens += num_accepted;
    if (accepted_per_position.size() < num_drafted) accepted_per_position.resize(num_drafted);
    for (uint32_t i = 0; i < num_accepted; ++i) ++accepted_per_position[i];
  }
};

}  // namespace paceline
