#include "common/decoder/sampler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/decoder/logit_rules.h"
#include "common/decoder/logprobs.h"

namespace paceline {
namespace {

Status CheckIds(std::span<const TokenId> ids, uint32_t vocab_size, const char* field) {
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= vocab_size) {
      return InvalidArgumentError("{}: want ids in [0, {}), found {}", field, vocab_size, id);
    }
  }
  return OkStatus();
}

Status CheckParams(const SamplingParams& params, uint32_t vocab_size) {
  RETURN_IF_ERROR(CheckIds(params.allowed_token_ids, vocab_size, "allowed_token_ids"));
  RETURN_IF_ERROR(CheckIds(params.stop_token_ids, vocab_size, "stop_token_ids"));
  RETURN_IF_ERROR(CheckIds(params.eos_token_ids, vocab_size, "eos_token_ids"));
  for (const auto& word : params.bad_words) RETURN_IF_ERROR(CheckIds(word, vocab_size, "bad_words"));
  for (const auto& [id, bias] : params.logit_bias) {
    RETURN_IF_ERROR(CheckIds({&id, 1}, vocab_size, "logit_bias"));
  }
  return OkStatus();
}

}  // namespace

StatusOr<SequenceSampler> SequenceSampler::Create(SamplerVocab vocab, SamplingParams params,
                                                  std::span<const TokenId> ids, uint32_t prompt_len) {
  if (prompt_len > ids.size()) {
    return InvalidArgumentError("sampler: want at least the prompt's {} ids, found {}", prompt_len,
                                ids.size());
  }
  if (vocab.num_token_ids > vocab.num_columns) {
    return InvalidArgumentError("sampler: want at most {} token ids (columns of the logits), found {}",
                                vocab.num_columns, vocab.num_token_ids);
  }
  RETURN_IF_ERROR(CheckIds(ids, vocab.num_columns, "ids"));
  RETURN_IF_ERROR(CheckParams(params, vocab.num_columns));
  return SequenceSampler(vocab, std::move(params), ids, prompt_len);
}

SequenceSampler::SequenceSampler(SamplerVocab vocab, SamplingParams params, std::span<const TokenId> ids,
                                 uint32_t prompt_len)
    : vocab_(vocab), params_(std::move(params)), history_(ids, prompt_len, NeedsOccurrences(params_)) {}

std::span<const float> SequenceSampler::EditedRow(std::span<const float> raw, SamplerScratch& scratch) const {
  const bool padded = vocab_.num_token_ids < vocab_.num_columns;
  if (!padded && !HasLogitRules(params_, history_)) return raw;
  scratch.edited.resize(raw.size());
  ApplyLogitRules(params_, history_, raw, scratch.edited);
  std::fill(scratch.edited.begin() + vocab_.num_token_ids, scratch.edited.end(),
            -std::numeric_limits<float>::infinity());
  return scratch.edited;
}

StatusOr<DrawnToken> SequenceSampler::Draw(std::span<const float> raw, Position position,
                                           SamplerScratch& scratch) const {
  CHECK_EQ(raw.size(), vocab_.num_columns);
  CHECK_EQ(position, next_position()) << "S1";
  RETURN_IF_ERROR(CheckFinite(raw));

  const NoiseKey key{.seed = params_.seed, .choice = params_.choice, .position = position};
  DrawnToken drawn;
  ASSIGN_OR_RETURN(drawn.id, DrawToken(EditedRow(raw, scratch), params_, key, scratch.draw));
  if (params_.logprobs >= 0) {
    drawn.logprobs = RawLogprobs(raw, drawn.id, static_cast<uint32_t>(params_.logprobs));
  }
  return drawn;
}

void SequenceSampler::Append(TokenId id) { history_.Append(id); }
void SequenceSampler::PushDraft(TokenId id) { history_.PushDraft(id); }
void SequenceSampler::PopDrafts() { history_.PopDrafts(); }

}  // namespace paceline
