// AnswerWriter: what a generating request is answered with, plain and streamed, chat and completion.
//
// Holds what is the same on every chunk (id, created, model, seed) and turns parts of choices into JSON.
// Every text leaves as valid UTF-8. Threading: const after construction.
//
//   AnswerWriter writer({.chat = true, .id = "chatcmpl-1", .model = "smol"});
//   exchange->Write(writer.ContentEvent(part, usage));    // "data: {...}\n\n"
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/api/api_error.h"
#include "coordinator/api/logprob_writer.h"
#include "coordinator/request/generation.h"

namespace paceline {

struct AnswerHead {
  bool chat = false;
  std::string id;       // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;  // seconds, wall clock
  std::string model;
  int64_t seed = 0;  // the one that was used, for a replay
  std::string role = "assistant";
  bool logprobs = false;
  bool return_token_ids = false;
  bool tokens_as_ids = false;
  // Streams: with usage, every chunk but the last carries null, or the running figures.
  bool include_usage = false;
  bool continuous_usage = false;
};

struct Usage {
  uint32_t num_prompt_tokens = 0;
  uint32_t num_completion_tokens = 0;
  uint32_t num_accepted = 0;  // of the drafts
  uint32_t num_rejected = 0;
  std::optional<uint32_t> num_cached;  // told only when the server is asked to
};

// A piece of one choice; in a plain answer all of it.
struct ChoicePart {
  uint32_t index = 0;
  std::string text;
  std::vector<TokenId> ids;
  std::vector<TokenLogprobs> logprobs;           // empty, or one per id
  size_t text_offset = 0;                        // characters of the tokens before
  const std::vector<TokenId>* prompt = nullptr;  // where prompt ids are due
  // End of the choice.
  FinishReason finish = FinishReason::kNone;
  std::optional<TokenId> stop_token;
  std::string stop_string;
};

class AnswerWriter {
 public:
  AnswerWriter(AnswerHead head, const Tokenizer& tokenizer);

  std::string Plain(std::span<const ChoicePart> choices, const Usage& usage) const;

  // Chat only: {role, content: ""}, the first event of a choice.
  std::string RoleEvent(const ChoicePart& part, const Usage& usage) const;
  std::string ContentEvent(const ChoicePart& part, const Usage& usage) const;
  // Empty delta and the finish reason.
  std::string FinishEvent(const ChoicePart& part, const Usage& usage) const;
  std::string UsageEvent(const Usage& usage) const;
  std::string ErrorEvent(const ApiError& error, const Usage& usage) const;
  static std::string DoneEvent() { return "data: [DONE]\n\n"; }

  const AnswerHead& head() const { return head_; }
  const LogprobWriter& logprobs() const { return logprobs_; }

 private:
  nlohmann::ordered_json Top(bool streamed) const;
  nlohmann::ordered_json Logprobs(const ChoicePart& part) const;
  void AddIds(const ChoicePart& part, nlohmann::ordered_json* choice) const;
  std::string Event(nlohmann::ordered_json choice, const Usage& usage) const;

  const AnswerHead head_;
  const LogprobWriter logprobs_;
};

// "stop", "length". CHECK: the choice has ended, and not with an error.
std::string_view FinishReasonText(FinishReason reason);

}  // namespace paceline
