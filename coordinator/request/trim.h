// TrimRun: where an accepted run of ids ends. The one place that decides it (P9): text, ids, logprobs, usage
// and counters all use its answer.
//
// Looks at the ids in token order, each as if it had come alone: a stop id, then a stop string that completes
// with it, then the cap. So a run of six behaves as six runs of one (B022, B023, B026).
//
//   ids [10 11 2 20 21], stop id 2, 5 tokens allowed -> kept 3, kStop, stop_token 2
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/protocol/sampling_params.h"
#include "common/protocol/types.h"
#include "coordinator/request/generation.h"

namespace paceline {

struct TrimLimits {
  uint32_t prompt_len = 0;
  uint32_t output_len = 0;     // ids committed before this run
  uint32_t max_model_len = 0;  // tokens, prompt included
};

struct TrimResult {
  size_t kept = 0;  // leading ids of the run that are committed
  FinishReason finish = FinishReason::kNone;
  std::optional<TokenId> stop_token;  // the stop id that ended it, if not the primary end id
  std::string stop_string;
};

// `text` may be null. It hears every kept id once, in order.
TrimResult TrimRun(const SamplingParams& sampling, const TrimLimits& limits, std::span<const TokenId> ids,
                   TextWatcher* text);

// Tokens at which the sequence ends at the latest, prompt included: no plan reaches beyond (B019, B020).
uint32_t TotalLenMax(const SamplingParams& sampling, uint32_t prompt_len, uint32_t max_model_len);

}  // namespace paceline
