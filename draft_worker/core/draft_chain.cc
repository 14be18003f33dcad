#include "draft_worker/core/draft_chain.h"

#include <algorithm>

#include "common/base/check.h"

namespace paceline {

DraftChain::DraftChain(const Admission& admission)
    : lineage_(admission.lineage),
      digests_{kEmptyIdDigest},
      verdicts_included_(admission.verdict_log_sequence) {
  for (TokenId id : admission.ids) Push(id);
  committed_ = proposer_equal_ = static_cast<Position>(ids_.size());
}

void DraftChain::Push(TokenId id) {
  ids_.push_back(id);
  digests_.push_back(IdDigest(digests_.back(), id));
}

void DraftChain::Cut(Position len) {
  if (len >= ids_.size()) return;
  ids_.resize(len);
  digests_.resize(len + 1);
  proposer_equal_ = std::min(proposer_equal_, len);
  ++cuts_;
}

void DraftChain::SetId(Position position, TokenId id) {
  if (position < ids_.size()) {
    if (ids_[position] == id) return;
    Cut(position);
  }
  CHECK_EQ(position, ids_.size());
  Push(id);
}

void DraftChain::NoteLineage(const Lineage& lineage) {
  if (lineage <= lineage_) return;
  lineage_ = lineage;
  windows_.clear();
}

DraftChain::Ready DraftChain::ReadyFor(const SequencePlan& plan) const {
  if (broken_ || plan.lineage < lineage_) return Ready::kDead;
  if (plan.continuation) return plan.lineage == lineage_ ? Ready::kYes : Ready::kDead;
  if (plan.start > committed_) return Ready::kWaits;
  return Ready::kYes;
}

std::optional<DraftChain::Request> DraftChain::Prepare(const SequencePlan& plan) {
  NoteLineage(plan.lineage);
  Position base = launched_end_;
  if (!plan.known_ids.empty()) {
    base = plan.start + static_cast<Position>(plan.known_ids.size());
    if (plan.start > ids_.size() || base < committed_) return std::nullopt;
    for (size_t i = 0; i < plan.known_ids.size(); ++i) {
      const Position position = plan.start + static_cast<Position>(i);
      if (position < committed_ && ids_[position] != plan.known_ids[i]) {
        broken_ = true;  // the coordinator and the verdicts disagree: better no drafts than wrong ones
        return std::nullopt;
      }
      SetId(position, plan.known_ids[i]);
    }
    if (!plan.continuation) windows_.clear();  // P12: everything before has its verdict, heard here or not
  }
  if (base > ids_.size()) return std::nullopt;
  Request request;
  request.base = base;
  request.base_digest = digests_[base];
  request.lineage = plan.lineage;
  request.draft_len_max = plan.draft_len_max;
  request.asked_from = static_cast<Position>(ids_.size());
  request.cuts = cuts_;
  const uint64_t want = uint64_t{base} + plan.draft_len_max;
  request.need = want > ids_.size() ? static_cast<uint32_t>(want - ids_.size()) : 0;
  return request;
}

ProposeItem DraftChain::ItemFor(const Request& request, const SequenceKey& key) const {
  ProposeItem item;
  item.key = key;
  item.keep = proposer_equal_;
  item.append.assign(ids_.begin() + proposer_equal_, ids_.begin() + request.asked_from);
  item.committed_len = std::min(committed_, request.asked_from);
  item.draft_len_max = request.need;
  return item;
}

std::vector<TokenId> DraftChain::Complete(const Request& request, StepId step,
                                          const std::vector<TokenId>& drafted) {
  if (request.need > 0 && cuts_ != request.cuts) {
    // A refusal came while the proposer worked; the lineage of the plan is dead. What the proposer's copy
    // has behind the cut is overwritten by the next item (`keep`).
    return {};
  }
  if (request.need > 0) {
    proposer_equal_ = request.asked_from;
    for (TokenId id : drafted) {
      // A verdict may have brought true ids in the meantime: they win.
      if (proposer_equal_ < ids_.size() && ids_[proposer_equal_] != id) break;
      if (proposer_equal_ == ids_.size()) Push(id);
      ++proposer_equal_;
    }
  }
  const auto begin = ids_.begin() + request.base;
  const size_t count = std::min<size_t>(request.draft_len_max, ids_.size() - request.base);
  if (request.lineage == lineage_) {
    windows_.push_back({step, static_cast<uint32_t>(count)});
    launched_end_ = request.base + static_cast<Position>(count);
  }
  return {begin, begin + static_cast<ptrdiff_t>(count)};
}

bool DraftChain::Apply(StepId step, const SequenceVerdict& verdict) {
  if (broken_) return true;
  if (!verdict.ids.empty() && verdict.first_position != committed_) {  // P8
    broken_ = true;
    return false;
  }
  for (TokenId id : verdict.ids) SetId(committed_++, id);
  if (verdict.lineage > lineage_) {
    NoteLineage(verdict.lineage);
    launched_end_ = verdict.rows_end;
    return true;
  }
  const auto window =
      std::find_if(windows_.begin(), windows_.end(), [&](const Window& w) { return w.step == step; });
  if (window == windows_.end()) return true;
  const bool went_without = verdict.num_drafted < window->count;
  windows_.erase(windows_.begin(), window + 1);
  if (went_without) {
    // What was proposed behind it named a wrong base: those frames had no drafts.
    for (Window& later : windows_) later.count = 0;
    launched_end_ = verdict.rows_end;
  }
  return true;
}

}  // namespace paceline
