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

std::vector<SequenceKey> SequenceBook::Release(SequenceId sequence, uint32_t counter) {
  std::vector<SequenceKey> released;
  absl::erase_if(states_, [&](const auto& entry) {
    const bool gone = entry.first.sequence == sequence && entry.first.counter <= counter;
    if (gone) released.push_back(entry.first);
    return gone;
  });
  std::sort(released.begin(), released.end());
  // The newest lineage may belong to an attempt that goes on.
  const auto it = newest_.find(sequence);
  if (it != newest_.end() && !states_.contains({sequence, it->second.coordinator})) newest_.erase(it);
  return released;
}

void SequenceBook::Clear() {
  states_.clear();
  newest_.clear();
}

}  // namespace paceline
