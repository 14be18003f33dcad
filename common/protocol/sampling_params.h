// What a request asks of sampling. Ranges are checked at the door (coordinator/api); defaults are "off".
//
// Part of the admission record, so that the last stage and a probabilistic drafter apply the same pipeline.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/protocol/types.h"

namespace paceline {

struct SamplingParams {
  float temperature = 1.0f;  // below 1e-5: greedy
  float top_p = 1.0f;        // (0, 1]
  int32_t top_k = 0;         // 0 = off
  float min_p = 0.0f;        // [0, 1]
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;                    // > 0
  std::vector<std::pair<TokenId, float>> logit_bias;  // ids in the vocabulary, each once
  std::vector<TokenId> allowed_token_ids;             // empty = all
  std::vector<std::vector<TokenId>> bad_words;        // banned id sequences
  std::vector<TokenId> stop_token_ids;  // request's own and the target's end ids (unless ignore_eos)
  std::vector<TokenId> eos_token_ids;   // the target's end ids; masked below min_tokens
  bool ignore_eos = false;
  uint32_t min_tokens = 0;
  uint32_t max_tokens = 0;  // > 0 once admitted: the cap after the context was taken into account
  int32_t logprobs = -1;    // -1 = none, else top-n count, 0..20
  uint64_t seed = 0;        // drawn at the door when the request gave none
  uint32_t choice = 0;      // index within its prompt, 0..n-1

  bool greedy() const { return temperature < 1e-5f; }
  bool operator==(const SamplingParams&) const = default;
};

}  // namespace paceline
