// The edits of a row's logits before temperature: masks, bias, penalties. Pure, any thread.
//
// Order (vLLM's, formats as in its V1 sampler): allowed ids, bad words, minimum length, bias, repetition
// penalty over prompt and output, frequency and presence penalty over output. A masked logit is -inf and
// stays so.
//
//   repetition 1.25, frequency 0.5, presence 0.25; token 0 (2.0): in the prompt, twice in the output
//   -> 2 / 1.25 - 2 * 0.5 - 0.25 = 0.35
#pragma once

#include <span>

#include "common/decoder/token_history.h"
#include "common/protocol/sampling_params.h"

namespace paceline {

// Whether any rule can change the logits of a row with this history; if not, the raw row serves.
bool HasLogitRules(const SamplingParams& params, const TokenHistory& history);

// Penalties need the history's counts.
bool NeedsOccurrences(const SamplingParams& params);

// `out` gets `raw` with the rules applied. Same size; all ids of the params lie in the vocabulary.
void ApplyLogitRules(const SamplingParams& params, const TokenHistory& history, std::span<const float> raw,
                     std::span<float> out);

}  // namespace paceline
