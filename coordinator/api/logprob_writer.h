// LogprobWriter: logprobs of emitted tokens in the two shapes of the OpenAI API.
//
// Promises: one entry per id; the chosen token is always among top_logprobs, with the identical float; a
// token that is half a character shows as U+FFFD with its true bytes beside it; -inf shows as -9999.
// Threading: const, any thread. The tokenizer outlives it.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "common/protocol/speculation.h"
#include "common/protocol/types.h"

namespace paceline {

class Tokenizer;

class LogprobWriter {
 public:
  LogprobWriter(const Tokenizer& tokenizer, bool tokens_as_ids)
      : tokenizer_(tokenizer), tokens_as_ids_(tokens_as_ids) {}

  // {tokens, token_logprobs, top_logprobs, text_offset}. `offset`: characters of the tokens before these.
  nlohmann::ordered_json Completion(std::span<const TokenId> ids, std::span<const TokenLogprobs> logprobs,
                                    size_t offset) const;
  // {content: [{token, logprob, bytes, top_logprobs}]}
  nlohmann::ordered_json Chat(std::span<const TokenId> ids, std::span<const TokenLogprobs> logprobs) const;

  // Characters that `ids` add to text_offset.
  size_t NumCharacters(std::span<const TokenId> ids) const;

 private:
  std::string TokenString(TokenId id) const;
  nlohmann::ordered_json Entry(TokenId id, float logprob) const;

  const Tokenizer& tokenizer_;
  const bool tokens_as_ids_;
};

}  // namespace paceline
