// SequenceBook: what a stage knows of each attempt of each sequence, and which lineage of it is the newest.
//
// Owned by StageCore. A sequence enters with the first plan that names it and leaves with its Release (P5).
//
//   book.Note(seq, {1, 3});                     // from a plan, a frame header, a verdict
//   book.IsStale(seq, {1, 2})  -> true           // its rows are dead (P6)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/protocol/block_table.h"
#include "common/protocol/protocol_break.h"
#include "common/protocol/sequence_key.h"
#include "common/protocol/sequence_messages.h"
#include "common/protocol/speculation.h"
#include "common/protocol/types.h"

namespace paceline {

struct StageSequence {
  BlockTable table;  // every stage

  // Stage 0: the chain it launched. digests[p] is the digest of the ids [0, p); the end is digests.size()
  // - 1.
  std::vector<uint64_t> digests{kEmptyIdDigest};
  std::optional<Lineage> launched;  // of the last live frame
  Position end() const { return static_cast<Position>(digests.size() - 1); }

  // Last stage: the truth about the sequence as far as it was drawn.
  bool admitted = false;
  std::vector<TokenId> ids;  // prompt and drawn ids
  Position next_row = 0;     // first position whose row was not computed (P11)
  uint32_t refusals = 0;     // Lineage::last_stage
};

class SequenceBook {
 public:
  explicit SequenceBook(ProtocolBreak broken) : broken_(broken) {}

  // The state of that attempt, made when it is new.
  StageSequence& Get(const SequenceKey& key) { return states_[key]; }
  StageSequence* Find(const SequenceKey& key);

  // True when this raised the newest lineage of the sequence.
  bool Note(SequenceId sequence, const Lineage& lineage);
  // The same for a hint (Cancel, a verdict), which must not bring a forgotten sequence back.
  bool NoteIfKnown(SequenceId sequence, const Lineage& lineage);
  bool IsStale(SequenceId sequence, const Lineage& lineage) const;

  // Forgets one attempt. False when it was not there.
  bool Release(const SequenceKey& key);
  void Clear();
  size_t size() const { return states_.size(); }

 private:
  bool Older(const Lineage& a, const Lineage& b) const;  // P7

  ProtocolBreak broken_;
  absl::flat_hash_map<SequenceKey, StageSequence> states_;
  absl::flat_hash_map<SequenceId, Lineage> newest_;
};

}  // namespace paceline
