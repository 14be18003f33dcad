// Chain verification by equality: a draft is accepted when it *is* the target's own draw (design section 3).
//
// Pure; called by the executor of the last stage once a frame's logits are there. Draws are lazy: the row
// behind a refused draft is never drawn, so its penalties never see an id that will not exist (B035).
//
//   rows of the sequence  [31 7 7 9], judge_begin 0      (31 is known, 7 7 9 are drafts)
//   draws                 7, 7, 4                        -> ids [7 7 4], num_matched 2; the fourth row is not
//   drawn
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/protocol/types.h"

namespace paceline {

// Draws the target's token at a row of one sequence.
class RowDrawer {
 public:
  virtual ~RowDrawer() = default;
  // `row` indexes the sequence's rows. Called for judge_begin first, then for each next row once the draw
  // before it was equal to that row's id; so the history is the committed ids and the rows behind judge_begin
  // up to `row`. Empty when the row's logits are not finite.
  virtual std::optional<TokenId> Draw(uint32_t row) = 0;
};

struct ChainResult {
  std::vector<TokenId> ids;  // accepted drafts, then the corrected or bonus id; without it when `failed`
  uint32_t num_matched = 0;  // accepted drafts behind judge_begin
  bool failed = false;       // a row that had to be drawn was not finite
};

// `judge_begin` is the row at the last known id; the rows behind it are drafts.
ChainResult VerifyChain(std::span<const TokenId> row_ids, uint32_t judge_begin, RowDrawer& drawer);

}  // namespace paceline
