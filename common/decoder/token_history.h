// The ids a sequence's logit rules look at: prompt, committed output, and the drafts of the row being judged.
//
// Owned by one SequenceSampler, used by its thread. A row of a chain sees the committed ids and the drafts
// before it; those are pushed and popped without copying the history, so a refused draft never reaches the
// counters (each committed output token counts once).
//
//   history.PushDraft(d1);   // row 1 of [x0, d1, d2]
//   ... draw ...
//   history.PopDrafts();     // as before
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/protocol/types.h"

namespace paceline {

struct Occurrence {
  bool in_prompt = false;
  uint32_t in_output = 0;  // how often, drafts included
};

class TokenHistory {
 public:
  // `ids` are the prompt and what was committed after it. Counting costs a hash entry per distinct id and is
  // left out when no penalty asks for it.
  TokenHistory(std::span<const TokenId> ids, uint32_t prompt_len, bool count);

  void Append(TokenId id);     // commits; no drafts may be pending
  void PushDraft(TokenId id);  // tentative
  void PopDrafts();            // all of them

  uint32_t length() const { return prompt_len_ + output_len(); }  // tokens, drafts included
  uint32_t output_len() const { return static_cast<uint32_t>(output_.size()); }
  uint32_t num_drafts() const { return num_drafts_; }
  std::span<const TokenId> output() const { return output_; }  // committed output, then drafts
  // Distinct ids that occurred; empty without counting. An entry may say "nowhere".
  const absl::flat_hash_map<TokenId, Occurrence>& occurrences() const { return occurrences_; }

 private:
  void AddOutput(TokenId id);

  uint32_t prompt_len_;
  bool count_;
  uint32_t num_drafts_ = 0;
  std::vector<TokenId> output_;
  absl::flat_hash_map<TokenId, Occurrence> occurrences_;
};

}  // namespace paceline
