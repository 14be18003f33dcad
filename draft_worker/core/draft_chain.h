// DraftChain: what the drafter believes of one attempt of a sequence: committed ids, then its own guess.
//
// Owned by DraftCore. Verdicts extend the committed part; where the guess said otherwise it is cut. Plans say
// where a frame begins, and Window answers which ids of the chain it should carry.
//
//   committed [5 9 2], guess [4 4 8]       after proposing 4 4 8 for a plan that ends its known ids at 3
//   continuation, draft_len_max 2          begins at the end of what was proposed, 6: wants ids 6 and 7
//   verdict [4 7] at 3                     committed [5 9 2 4 7], no guess; the lineage is a new one
//
// The end of what stage 0 launched is a belief: it may have gone without a proposal. A verdict with fewer
// drafted rows than were proposed corrects it; until then proposals name a wrong base and count as empty
// (P11).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/protocol/protocol_break.h"
#include "common/protocol/sequence_messages.h"
#include "common/protocol/speculation.h"
#include "common/protocol/step_plan.h"
#include "draft_worker/proposer.h"

namespace paceline {

class DraftChain {
 public:
  explicit DraftChain(const Admission& admission);

  enum class Ready : uint8_t {
    kYes,
    kDead,   // the plan's lineage is old: an empty proposal
    kWaits,  // for verdicts that bring the ids below its start
  };
  Ready ReadyFor(const SequencePlan& plan) const;

  // Moves the chain to where the plan's frame begins and says what to ask the proposer for. Empty when the
  // chain cannot serve the plan. Only after ReadyFor said kYes.
  struct Request {
    Position base = 0;
    uint64_t base_digest = 0;
    Lineage lineage;
    uint32_t draft_len_max = 0;
    Position asked_from = 0;  // length of the chain when it was asked for
    uint64_t cuts = 0;
    uint32_t need = 0;  // ids the proposer should add; 0 = the guess reaches far enough
  };
  std::optional<Request> Prepare(const SequencePlan& plan);
  ProposeItem ItemFor(const Request& request, const SequenceKey& key) const;
  // The proposer's ids for it, empty if need was 0. Answers the ids to propose.
  std::vector<TokenId> Complete(const Request& request, StepId step, const std::vector<TokenId>& drafted);

  // In log order. False when the ids do not begin where the chain's committed part ends (P8): nothing can be
  // drafted for it any more.
  bool Apply(StepId step, const SequenceVerdict& verdict);
  // A hint or a plan of a newer attempt.
  void NoteLineage(const Lineage& lineage);

  uint64_t verdicts_included() const { return verdicts_included_; }
  Position committed_len() const { return committed_; }

 private:
  struct Window {
    StepId step;
    uint32_t count = 0;  // ids proposed that stage 0 is believed to have launched
  };

  void Push(TokenId id);
  void Cut(Position len);
  void SetId(Position position, TokenId id);

  Lineage lineage_;
  std::vector<TokenId> ids_;
  std::vector<uint64_t> digests_;  // digests_[p] of ids_[0, p)
  Position committed_ = 0;
  Position launched_end_ = 0;
  Position proposer_equal_ = 0;  // the proposer's copy equals ids_ below this
  uint64_t cuts_ = 0;
  uint64_t verdicts_included_ = 0;
  std::deque<Window> windows_;
  bool broken_ = false;
};

}  // namespace paceline
