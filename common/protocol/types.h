// Names that every message and every core uses: ids, positions, generations, lineages.
#pragma once

#include <compare>
#include <cstdint>

#include "common/base/strong_id.h"

namespace paceline {

using TokenId = int32_t;    // index into the vocabulary, never negative in a checked message
using Position = uint32_t;  // absolute, 0 = first token of the sequence: what rope and stop rules see
using Slot =
    uint32_t;  // where a row's K/V lies in its sequence's blocks: block slot / block_size, then offset

using SequenceId = StrongId<struct SequenceIdTag, uint64_t>;  // one choice of one prompt; never reused
using StepId = StrongId<struct StepIdTag, uint64_t>;          // counts within a generation, from 1
using BlockId = StrongId<struct BlockIdTag, uint32_t>;        // physical KV block, the same at every stage

// The cluster's membership (P16): another coordinator or another set of workers is another generation.
struct Generation {
  uint64_t coordinator_nonce = 0;
  uint32_t counter = 0;
  auto operator<=>(const Generation&) const = default;
};

// Which attempt of a sequence a piece of work belongs to (P7). Compared lexicographically; raising
// `coordinator` (admission, preemption, cancel, finish) sets `last_stage` (refusals) to 0.
struct Lineage {
  uint32_t coordinator = 0;
  uint32_t last_stage = 0;
  auto operator<=>(const Lineage&) const = default;
};

}  // namespace paceline
