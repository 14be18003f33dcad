#include "common/decoder/token_history.h"

#include "common/base/check.h"

namespace paceline {

TokenHistory::TokenHistory(std::span<const TokenId> ids, uint32_t prompt_len, bool count)
    : prompt_len_(prompt_len), count_(count) {
  CHECK_LE(prompt_len, ids.size());
  if (count_) {
    for (const TokenId id : ids.first(prompt_len)) occurrences_[id].in_prompt = true;
  }
  for (const TokenId id : ids.subspan(prompt_len)) AddOutput(id);
}

void TokenHistory::Append(TokenId id) {
  CHECK_EQ(num_drafts_, 0u) << "a commit while drafts are pending";
  AddOutput(id);
}

void TokenHistory::PushDraft(TokenId id) {
  AddOutput(id);
  ++num_drafts_;
}

void TokenHistory::PopDrafts() {
  for (; num_drafts_ > 0; --num_drafts_) {
    if (count_) --occurrences_[output_.back()].in_output;
    output_.pop_back();
  }
}

void TokenHistory::AddOutput(TokenId id) {
  output_.push_back(id);
  if (count_) ++occurrences_[id].in_output;
}

}  // namespace paceline
