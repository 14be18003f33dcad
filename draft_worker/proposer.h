// Proposer: one method of drafting (ngram, a draft model, ...). The only thing a new method implements.
//
// Owned by the draft worker's shell; every call comes from its one compute thread, one at a time, in the
// order of the core's outbox. Calls are synchronous and may take as long as drafting takes.
//
// The proposer keeps a copy of each sequence's ids. Before it drafts, an item edits that copy:
//   copy := copy[0, keep) + append; then up to draft_len_max ids behind it are drafted *and stay in the
//   copy* (the guess). A later item cuts the guess with `keep` as far as it was refused, or keeps it and
//   drafts on from it: run-ahead needs nothing else. A draft model's KV cache is valid below min(its length,
//   keep): that is the whole of rollback.
//
// Worked example, draft_len_max 3:
//   Admit [5 9 2]
//   Propose {keep 3, append []}    drafts [4 4 8]      copy 5 9 2 4 4 8
//   Propose {keep 6, append []}    drafts [1 0 0]      copy 5 9 2 4 4 8 1 0 0     run-ahead on its own guess
//   Propose {keep 4, append [7]}   drafts [6]          copy 5 9 2 4 7 6           4 accepted, then 7 instead
//                                                                                 of 4
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/protocol/sequence_key.h"
#include "common/protocol/sequence_messages.h"
#include "common/protocol/types.h"

namespace paceline {

struct ProposeItem {
  SequenceKey key;
  Position keep = 0;            // ids of the proposer's copy that stay
  std::vector<TokenId> append;  // ids behind them
  Position committed_len = 0;   // ids of the edited copy that are the target's own; the rest is guess
  uint32_t draft_len_max = 0;   // most ids to draft, > 0
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  // The copy starts as the admission's ids.
  virtual void Admit(const Admission& admission) = 0;
  virtual void Release(const SequenceKey& key) = 0;
  // A new generation: every sequence is forgotten.
  virtual void Reset() = 0;
  // One answer per item, at most draft_len_max ids each, possibly none (no match; beyond the drafter's own
  // context). Every key was admitted.
  virtual std::vector<std::vector<TokenId>> Propose(std::span<const ProposeItem> items) = 0;
};

}  // namespace paceline
