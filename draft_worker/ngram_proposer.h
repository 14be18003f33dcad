// NgramProposer: prompt lookup. Drafts what followed the last place where the newest ids occurred before.
//
// Owned by the draft worker's shell, called from its compute thread. Takes the longest n in min_n..max_n for which the
// last n ids occur earlier in the sequence, and of its places the most recent; the draft is a copy of what follows,
// and goes on through itself where the copy reaches its own beginning (so a repeated line is drafted whole).
// Source: github.com/apoorvumang/prompt-lookup-decoding; vLLM's `ngram` (which stops at the end of the text).
//
//   ids 5 9 2 7 | 5 9, min_n 1, max_n 3, 3 ids wanted  ->  2 7 5        (n = 2: "5 9" occurred at 0)
//
// Cost: one scan over the ids a proposal, no index to keep through rollbacks: 8192 ids take about 10 us.
#pragma once

#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "draft_worker/proposer.h"

namespace paceline {

struct NgramOptions {
  uint32_t min_n = 1;  // >= 1
  uint32_t max_n = 3;  // >= min_n
};

// The draft behind `ids`, at most `len_max` ids; empty when nothing matches.
std::vector<TokenId> LookUpNgram(std::span<const TokenId> ids, const NgramOptions& options, uint32_t len_max);

class NgramProposer : public Proposer {
 public:
  explicit NgramProposer(NgramOptions options) : options_(options) {}

  void Admit(const Admission& admission) override;
  void Release(const SequenceKey& key) override;
  void Reset() override;
  std::vector<std::vector<TokenId>> Propose(std::span<const ProposeItem> items) override;

 private:
  const NgramOptions options_;
  absl::flat_hash_map<SequenceKey, std::vector<TokenId>> ids_;
};

}  // namespace paceline
