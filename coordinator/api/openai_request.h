// OpenAI requests: JSON bodies into structs whose every value is in its declared range.
//
// One table (RequestFields) names each field with its routes, kind, range and use; CheckFields holds a body
// against it, and the Parse functions read what then can be trusted. A field is honoured, refused (400 with
// `param`), accepted without effect, or, when no table row names it, ignored and said once in the debug log.
// Threading: pure functions. No value reaches an index or a size unchecked.
//
//   ChatRequest chat;
//   if (MaybeError error = ParseChatRequest(body, options, &chat)) return ErrorResponse(*error);
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/protocol/sampling_params.h"
#include "coordinator/api/api_error.h"
#include "coordinator/api/api_options.h"

namespace paceline {

enum ApiRoute : uint8_t { kChatRoute = 1, kCompletionRoute = 2, kTokenizeRoute = 4, kDetokenizeRoute = 8 };

enum class FieldKind : uint8_t {
  kInteger,  // 1.0 is one, 1.5 is not
  kNumber,   // finite
  kBool,
  kString,
  kObject,
  kList,      // read by its own code
  kTextList,  // a string or a list of strings, none empty
  kIdList,    // ids in the vocabulary
  kIdBias,    // {"id": number}
  kAny,
};

enum class FieldUse : uint8_t { kHonoured, kNoEffect, kRefused };

struct FieldRule {
  std::string_view name;
  uint8_t routes;  // ApiRoute bits
  FieldKind kind;
  FieldUse use = FieldUse::kHonoured;
  // Inclusive. Of the value (kInteger, kNumber), of each number (kIdBias).
  double min = 0;
  double max = 0;
  uint32_t count_max = 0;  // entries of a list or object, 0 = not bounded here
  uint32_t bytes_max = 0;  // of each string, 0 = not bounded here
};

// Every field of every route, with the caps of `options` filled in.
std::vector<FieldRule> RequestFields(const ApiOptions& options);

// What both generating routes share. Field values of `sampling` are final but for bad_words, seed, choice,
// max_tokens and eos, which the door fills.
struct RequestParams {
  SamplingParams sampling;
  std::optional<uint64_t> seed;
  uint32_t n = 1;
  std::optional<uint32_t> max_tokens;  // asked for, or the model's default
  std::vector<std::string> stop;
  std::vector<std::string> bad_words;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  bool add_special_tokens = true;
  bool return_token_ids = false;
  bool tokens_as_ids = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
};

struct PromptInput {
  std::string text;
  std::vector<TokenId> ids;
  bool is_ids = false;
};

struct CompletionRequest {
  RequestParams params;
  std::vector<PromptInput> prompts;  // at least one
};

// The conversation of a request, checked: what a template sees.
struct ChatInput {
  std::shared_ptr<nlohmann::ordered_json> messages;  // array of {role, content...}
  std::shared_ptr<nlohmann::ordered_json> kwargs;    // object: server's defaults, then the request's
  bool add_generation_prompt = true;
};

struct ChatRequest {
  RequestParams params;
  ChatInput chat;
};

struct TokenizeRequest {
  std::optional<ChatInput> chat;  // else `prompt`
  std::string prompt;
  bool add_special_tokens = true;
};

MaybeError ParseCompletionRequest(const nlohmann::ordered_json& body, const ApiOptions& options,
                                  CompletionRequest* out);
MaybeError ParseChatRequest(const nlohmann::ordered_json& body, const ApiOptions& options, ChatRequest* out);
MaybeError ParseTokenizeRequest(const nlohmann::ordered_json& body, const ApiOptions& options,
                                TokenizeRequest* out);
MaybeError ParseDetokenizeRequest(const nlohmann::ordered_json& body, const ApiOptions& options,
                                  std::vector<TokenId>* out);

}  // namespace paceline
