// SequenceKey: one attempt of one sequence. All state at workers is keyed by it (P5), so that work of an old
// attempt that is still in flight and the admission of the next never share a table.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <utility>

#include "common/protocol/types.h"

namespace paceline {

struct SequenceKey {
  SequenceId sequence;
  uint32_t counter = 0;  // Lineage::coordinator

  auto operator<=>(const SequenceKey&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, const SequenceKey& key) {
    return H::combine(std::move(h), key.sequence, key.counter);
  }
  friend std::ostream& operator<<(std::ostream& out, const SequenceKey& key) {
    return out << key.sequence << "." << key.counter;
  }
};

inline SequenceKey KeyOf(SequenceId sequence, const Lineage& lineage) {
  return {sequence, lineage.coordinator};
}

}  // namespace paceline
