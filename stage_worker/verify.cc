#include "stage_worker/verify.h"

#include "common/base/check.h"

namespace paceline {

ChainResult VerifyChain(std::span<const TokenId> row_ids, uint32_t judge_begin, RowDrawer& drawer) {
  CHECK_LT(judge_begin, row_ids.size());
  ChainResult result;
  for (uint32_t row = judge_begin; row < row_ids.size(); ++row) {
    const std::optional<TokenId> drawn = drawer.Draw(row);
    if (!drawn) {
      result.failed = true;
      return result;
    }
    result.ids.push_back(*drawn);
    if (row + 1 == row_ids.size() || row_ids[row + 1] != *drawn) break;
    ++result.num_matched;
  }
  return result;
}

}  // namespace paceline
