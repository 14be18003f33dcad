// RequestDoor: from the body of a request to ids the engine can run, or to the error that names the field.
//
// Everything that can be wrong with a request is found here, before the engine hears of it. Parsing, template
// and tokenizer cost what the body is long, so this runs on door threads. Threading: const, any thread.
// Limits: ApiLimits; the template's budget; a prompt must leave room for one token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/api/api_error.h"
#include "coordinator/api/api_options.h"
#include "coordinator/api/openai_request.h"

namespace paceline {

struct PreparedPrompt {
  std::vector<TokenId> ids;
  uint32_t max_tokens = 0;  // > 0, within what the context leaves
};

struct PreparedRequest {
  bool chat = false;
  RequestParams params;
  std::vector<PreparedPrompt> prompts;
};

class RequestDoor {
 public:
  // `options` outlives the door.
  explicit RequestDoor(const ApiOptions& options) : options_(options) {}

  MaybeError Chat(std::string_view body, PreparedRequest* out) const;
  MaybeError Completion(std::string_view body, PreparedRequest* out) const;
  // The JSON body of the answer.
  MaybeError Tokenize(std::string_view body, std::string* answer) const;
  MaybeError Detokenize(std::string_view body, std::string* answer) const;

 private:
  MaybeError Render(const ChatInput& chat, std::string* out) const;
  MaybeError EncodeChat(const ChatInput& chat, bool add_special_tokens, std::vector<TokenId>* out) const;
  MaybeError EncodeText(std::string_view text, bool add_special_tokens, std::vector<TokenId>* out) const;
  MaybeError Finish(PreparedRequest* out) const;
  MaybeError EncodeBadWords(RequestParams* params) const;
  size_t TokensMax() const;

  const ApiOptions& options_;
};

}  // namespace paceline
