#include "common/decoder/logit_rules.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"

namespace paceline {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

bool BelowMinTokens(const SamplingParams& params, const TokenHistory& history) {
  return history.output_len() < params.min_tokens;
}

void KeepAllowed(const SamplingParams& params, std::span<const float> raw, std::span<float> out) {
  if (params.allowed_token_ids.empty()) {
    std::copy(raw.begin(), raw.end(), out.begin());
    return;
  }
  std::fill(out.begin(), out.end(), kMasked);
  for (const TokenId id : params.allowed_token_ids) out[id] = raw[id];
}

// A word's last id is banned where the output ends with the ids before it.
void MaskBadWords(const SamplingParams& params, const TokenHistory& history, std::span<float> out) {
  const std::span<const TokenId> output = history.output();
  for (const std::vector<TokenId>& word : params.bad_words) {
    if (word.empty()) continue;
    const size_t head = word.size() - 1;
    if (head > output.size()) continue;
    if (std::equal(word.begin(), word.begin() + head, output.end() - head)) out[word.back()] = kMasked;
  }
}

// Every id that would end the text, also with ignore_eos.
void MaskEnds(const SamplingParams& params, std::span<float> out) {
  for (const TokenId id : params.eos_token_ids) out[id] = kMasked;
  for (const TokenId id : params.stop_token_ids) out[id] = kMasked;
}

void Penalise(const SamplingParams& params, const TokenHistory& history, std::span<float> out) {
  // Each id is edited by itself, so the order of the map's walk does not show.
  for (const auto& [id, seen] : history.occurrences()) {
    float& z = out[id];
    if (seen.in_prompt || seen.in_output > 0) {
      z = z > 0 ? z / params.repetition_penalty : z * params.repetition_penalty;
    }
    if (seen.in_output > 0) {
      z -= params.frequency_penalty * static_cast<float>(seen.in_output);
      z -= params.presence_penalty;
    }
  }
}

}  // namespace

bool NeedsOccurrences(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f ||
         params.presence_penalty != 0.0f;
}

bool HasLogitRules(const SamplingParams& params, const TokenHistory& history) {
  return NeedsOccurrences(params) || !params.logit_bias.empty() || !params.allowed_token_ids.empty() ||
         !params.bad_words.empty() || BelowMinTokens(params, history);
}

void ApplyLogitRules(const SamplingParams& params, const TokenHistory& history, std::span<const float> raw,
                     std::span<float> out) {
  CHECK_EQ(raw.size(), out.size());
  KeepAllowed(params, raw, out);
  MaskBadWords(params, history, out);
  if (BelowMinTokens(params, history)) MaskEnds(params, out);
  for (const auto& [id, bias] : params.logit_bias) out[id] += bias;
  if (NeedsOccurrences(params)) Penalise(params, history, out);
}

}  // namespace paceline
