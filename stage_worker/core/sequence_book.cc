#include "stage_worker/core/sequence_book.h"

#include <algorithm>
#include <tuple>

namespace paceline {

StageSequence* SequenceBook::Find(const SequenceKey& key) {
  const auto it = states_.find(key);
  return it == states_.end() ? nullptr : &it->second;
}

bool SequenceBook::Older(const Lineage& a, const Lineage& b) const {
  if (broken_ == ProtocolBreak::kP7ComparesLastStageFirst) {
    return std::tie(a.last_stage, a.coordinator) < std::tie(b.last_stage, b.coordinator);
  }
  return a < b;
}

bool SequenceBook::Note(SequenceId sequence, const Lineage& lineage) {
  const auto [it, is_new] = newest_.try_emplace(sequence, lineage);
  if (is_new) return true;
  if (!Older(it->second, lineage)) return false;
  it->second = lineage;
  return true;
}

bool SequenceBook::NoteIfKnown(SequenceId sequence, const Lineage& lineage) {
  return newest_.contains(sequence) && Note(sequence, lineage);
}

bool SequenceBook::IsStale(SequenceId sequence, const Lineage& lineage) const {
  const auto it = newest_.find(sequence);
  return it != newest_.end() && Older(lineage, it->second);
}

bool SequenceBook::Release(const SequenceKey& key) {
  const bool known = states_.erase(key) > 0;
  // Without any attempt nothing can be stale; an attempt that is planned and not here yet notes itself again.
  const bool others = std::any_of(states_.begin(), states_.end(),
                                  [&](const auto& entry) { return entry.first.sequence == key.sequence; });
  if (!others) newest_.erase(key.sequence);
  return known;
}

void SequenceBook::Clear() {
  states_.clear();
  newest_.clear();
}

}  // namespace paceline
