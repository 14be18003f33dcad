// Log probabilities that the API reports: log-softmax of a row's raw logits. Pure, any thread.
//
// A token's float is computed one way, so the drawn token and its entry among the best are identical.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/protocol/speculation.h"
#include "common/protocol/types.h"

namespace paceline {

// `num_top` best ids (ties: lowest id first). rank counts the ids whose logit is at least the token's. All
// logits finite.
TokenLogprobs RawLogprobs(std::span<const float> logits, TokenId id, uint32_t num_top);

// DataLoss naming the first NaN or infinite value: text is never made from such a row (B176).
Status CheckFinite(std::span<const float> logits);

}  // namespace paceline
