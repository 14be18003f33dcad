#include "coordinator/request/trim.h"

#include <algorithm>

namespace paceline {
namespace {

bool IsStopId(const SamplingParams& sampling, TokenId id) {
  const auto& ids = sampling.stop_token_ids;
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool IsPrimaryEnd(const SamplingParams& sampling, TokenId id) {
  return !sampling.eos_token_ids.empty() && sampling.eos_token_ids.front() == id;
}

}  // namespace

uint32_t TotalLenMax(const SamplingParams& sampling, uint32_t prompt_len, uint32_t max_model_len) {
  const uint64_t wanted = uint64_t{prompt_len} + sampling.max_tokens;
  return static_cast<uint32_t>(std::min<uint64_t>(wanted, max_model_len));
}

TrimResult TrimRun(const SamplingParams& sampling, const TrimLimits& limits, std::span<const TokenId> ids,
                   TextWatcher* text) {
  const uint32_t total_max = TotalLenMax(sampling, limits.prompt_len, limits.max_model_len);
  TrimResult result;
  uint32_t output_len = limits.output_len;
  for (TokenId id : ids) {
    if (limits.prompt_len + output_len >= total_max) {  // nothing was left to begin with
      result.finish = FinishReason::kLength;
      return result;
    }
    ++output_len;
    ++result.kept;
    const bool stops = output_len >= sampling.min_tokens && IsStopId(sampling, id);
    const bool completes =
        text != nullptr && text->OnToken(id, /*searchable=*/output_len > sampling.min_tokens, stops);
    if (stops) {
      result.finish = FinishReason::kStop;
      if (!IsPrimaryEnd(sampling, id)) result.stop_token = id;
      return result;
    }
    if (completes) {
      result.finish = FinishReason::kStop;
      result.stop_string = text->stop_string();
      return result;
    }
    if (limits.prompt_len + output_len >= total_max) {
      result.finish = FinishReason::kLength;
      return result;
    }
  }
  return result;
}

}  // namespace paceline
