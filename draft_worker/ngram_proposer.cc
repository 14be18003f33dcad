#include "draft_worker/ngram_proposer.h"

#include "common/base/check.h"

namespace paceline {
namespace {

// Ids that ids[0, end) and the whole of `ids` have in common at their ends, at most `max_n`.
uint32_t CommonSuffix(std::span<const TokenId> ids, size_t end, uint32_t max_n) {
  uint32_t n = 0;
  while (n < max_n && n < end && ids[end - 1 - n] == ids[ids.size() - 1 - n]) ++n;
  return n;
}

}  // namespace

std::vector<TokenId> LookUpNgram(std::span<const TokenId> ids, const NgramOptions& options, uint32_t len_max) {
  uint32_t longest = 0;
  size_t match_end = 0;
  for (size_t end = ids.size(); end-- > 1 && longest < options.max_n;) {
    const uint32_t n = CommonSuffix(ids, end, options.max_n);
    if (n > longest) {
      longest = n;
      match_end = end;
    }
  }
  std::vector<TokenId> draft;
  if (longest < options.min_n) return draft;
  draft.reserve(len_max);
  for (uint32_t i = 0; i < len_max; ++i) {
    const size_t from = match_end + i;
    draft.push_back(from < ids.size() ? ids[from] : draft[from - ids.size()]);
  }
  return draft;
}

void NgramProposer::Admit(const Admission& admission) {
  ids_[KeyOf(admission.sequence, admission.lineage)] = admission.ids;
}

void NgramProposer::Release(const SequenceKey& key) { ids_.erase(key); }

void NgramProposer::Reset() { ids_.clear(); }

std::vector<std::vector<TokenId>> NgramProposer::Propose(std::span<const ProposeItem> items) {
  std::vector<std::vector<TokenId>> out;
  out.reserve(items.size());
  for (const ProposeItem& item : items) {
    const auto found = ids_.find(item.key);
    CHECK(found != ids_.end()) << "a proposal for a sequence that was not admitted";
    std::vector<TokenId>& ids = found->second;
    CHECK_LE(item.keep, ids.size());
    ids.resize(item.keep);
    ids.insert(ids.end(), item.append.begin(), item.append.end());
    out.push_back(LookUpNgram(ids, options_, item.draft_len_max));
    ids.insert(ids.end(), out.back().begin(), out.back().end());
  }
  return out;
}

}  // namespace paceline
