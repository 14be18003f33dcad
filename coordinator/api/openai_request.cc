#include "coordinator/api/openai_request.h"

#include <algorithm>

#include "coordinator/api/request_fields.h"

namespace paceline {
namespace {

using nlohmann::ordered_json;

constexpr uint32_t kCompletionTokens = 16;  // max_tokens of /v1/completions when nobody says otherwise

std::vector<std::string> TextList(const ordered_json* value) {
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  return value->get<std::vector<std::string>>();
}

std::vector<TokenId> IdList(const ordered_json* value) {
  std::vector<TokenId> out;
  if (value == nullptr) return out;
  for (const ordered_json& id : *value) out.push_back(static_cast<TokenId>(*AsInteger(id)));
  return out;
}

uint32_t Clamp(int64_t value) { return static_cast<uint32_t>(std::min<int64_t>(value, UINT32_MAX)); }

MaybeError ParseSampling(const FieldReader& fields, const ApiOptions& options, RequestParams* out) {
  const GenerationDefaults& defaults = options.defaults;
  SamplingParams& sampling = out->sampling;
  sampling.temperature = fields.Number("temperature").value_or(defaults.temperature.value_or(1.0f));
  sampling.top_p = fields.Number("top_p").value_or(defaults.top_p.value_or(1.0f));
  sampling.top_k = static_cast<int32_t>(fields.Int("top_k").value_or(defaults.top_k.value_or(0)));
  sampling.top_k = std::max(sampling.top_k, 0);
  sampling.min_p = fields.Number("min_p").value_or(defaults.min_p.value_or(0.0f));
  sampling.presence_penalty = fields.Number("presence_penalty").value_or(0.0f);
  sampling.frequency_penalty = fields.Number("frequency_penalty").value_or(0.0f);
  sampling.repetition_penalty =
      fields.Number("repetition_penalty").value_or(defaults.repetition_penalty.value_or(1.0f));
  if (const ordered_json* bias = fields.Find("logit_bias")) {
    for (const auto& [id, value] : bias->items()) {
      const auto token = static_cast<TokenId>(std::stoul(id));
      const auto same = [token](const auto& entry) { return entry.first == token; };
      if (std::ranges::any_of(sampling.logit_bias, same)) {  // "7" and "07"
        return ApiError::Invalid("logit_bias", "logit_bias names token id {} twice", token);
      }
      sampling.logit_bias.emplace_back(token, value.get<float>());
    }
  }
  if (const ordered_json* allowed = fields.Find("allowed_token_ids");
      allowed != nullptr && allowed->empty()) {
    return ApiError::Invalid("allowed_token_ids",
                             "allowed_token_ids must not be empty; leave it out for all");
  }
  sampling.allowed_token_ids = IdList(fields.Find("allowed_token_ids"));
  sampling.ignore_eos = fields.Bool("ignore_eos", false);
  sampling.stop_token_ids = IdList(fields.Find("stop_token_ids"));
  sampling.eos_token_ids = options.eos_token_ids;
  if (!sampling.ignore_eos) {
    for (TokenId id : options.eos_token_ids) {
      if (std::ranges::find(sampling.stop_token_ids, id) == sampling.stop_token_ids.end()) {
        sampling.stop_token_ids.push_back(id);
      }
    }
  }
  return std::nullopt;
}

MaybeError ParseCounts(const FieldReader& fields, const ApiOptions& options, ApiRoute route,
                       RequestParams* out) {
  out->n = static_cast<uint32_t>(fields.Int("n").value_or(1));
  if (out->n > 1 && out->sampling.greedy()) {
    return ApiError::Invalid("n", "n is {} with temperature 0: all choices would be equal; raise temperature",
                             out->n);
  }
  if (const std::optional<int64_t> seed = fields.Int("seed")) out->seed = static_cast<uint64_t>(*seed);
  std::optional<int64_t> max_tokens = fields.Int("max_completion_tokens");
  if (!max_tokens) max_tokens = fields.Int("max_tokens");
  if (!max_tokens && options.defaults.max_new_tokens) max_tokens = *options.defaults.max_new_tokens;
  if (!max_tokens && route == kCompletionRoute) max_tokens = kCompletionTokens;
  if (max_tokens) out->max_tokens = Clamp(*max_tokens);
  const int64_t min_tokens = fields.Int("min_tokens").value_or(0);
  if (min_tokens > static_cast<int64_t>(out->max_tokens.value_or(options.max_model_len))) {
    return ApiError::Invalid("min_tokens", "min_tokens {} is over max_tokens {}", min_tokens,
                             out->max_tokens.value_or(options.max_model_len));
  }
  out->sampling.min_tokens = static_cast<uint32_t>(min_tokens);
  return std::nullopt;
}

MaybeError ParseLogprobs(const FieldReader& fields, ApiRoute route, RequestParams* out) {
  if (route == kCompletionRoute) {
    out->sampling.logprobs = static_cast<int32_t>(fields.Int("logprobs").value_or(-1));
    return std::nullopt;
  }
  const bool wanted = fields.Bool("logprobs", false);
  const std::optional<int64_t> top = fields.Int("top_logprobs");
  if (top && *top > 0 && !wanted) {
    return ApiError::Invalid("top_logprobs", "top_logprobs needs logprobs: true");
  }
  if (wanted) out->sampling.logprobs = static_cast<int32_t>(top.value_or(0));
  return std::nullopt;
}

MaybeError ParseStreaming(const FieldReader& fields, const ApiOptions& options, RequestParams* out) {
  out->stream = fields.Bool("stream", false);
  out->include_usage = out->stream && options.force_include_usage;
  const ordered_json* stream_options = fields.Find("stream_options");
  if (stream_options == nullptr) return std::nullopt;
  if (!out->stream) return ApiError::Invalid("stream_options", "stream_options needs stream: true");
  for (const auto& [name, value] : stream_options->items()) {
    const bool known = name == "include_usage" || name == "continuous_usage_stats";
    if (!known) {
      return ApiError::Unsupported("stream_options", "stream_options has no key '{}' here",
                                   name.substr(0, 64));
    }
    if (!value.is_null() && !value.is_boolean()) {
      return ApiError::Invalid("stream_options", "stream_options.{} must be true or false, found {}", name,
                               value.type_name());
    }
  }
  const FieldReader inner(*stream_options);
  out->include_usage = out->include_usage || inner.Bool("include_usage", false);
  out->continuous_usage = out->include_usage && inner.Bool("continuous_usage_stats", false);
  return std::nullopt;
}

// What is not built yet is refused by name, also where a default of it would be harmless to name.
MaybeError RefuseFormats(const FieldReader& fields) {
  if (const ordered_json* format = fields.Find("response_format")) {
    const auto type = format->find("type");
    if (type == format->end() || !type->is_string()) {
      return ApiError::Invalid("response_format", "response_format.type must be a string");
    }
    if (*type != "text") {
      return ApiError::Unsupported(
          "response_format", "response_format {} is not supported; only text",
          type->dump(-1, ' ', false, ordered_json::error_handler_t::replace).substr(0, 64));
    }
  }
  if (const ordered_json* choice = fields.Find("tool_choice"); choice != nullptr) {
    if (*choice != "none" && *choice != "auto") {
      return ApiError::Unsupported("tool_choice", "tool_choice needs tools, which are not supported");
    }
  }
  return std::nullopt;
}

MaybeError ParseParams(const FieldReader& fields, const ApiOptions& options, ApiRoute route,
                       RequestParams* out) {
  if (MaybeError error = ParseSampling(fields, options, out)) return error;
  if (MaybeError error = ParseCounts(fields, options, route, out)) return error;
  if (MaybeError error = ParseLogprobs(fields, route, out)) return error;
  if (MaybeError error = ParseStreaming(fields, options, out)) return error;
  if (MaybeError error = RefuseFormats(fields)) return error;
  out->stop = TextList(fields.Find("stop"));
  out->bad_words = TextList(fields.Find("bad_words"));
  out->include_stop_str_in_output = fields.Bool("include_stop_str_in_output", false);
  out->skip_special_tokens = fields.Bool("skip_special_tokens", true);
  out->add_special_tokens = fields.Bool("add_special_tokens", route == kCompletionRoute);
  out->return_token_ids = fields.Bool("return_token_ids", false);
  out->tokens_as_ids = fields.Bool("return_tokens_as_token_ids", options.return_tokens_as_token_ids);
  return std::nullopt;
}

MaybeError ParseIdPrompt(const ordered_json& list, uint32_t vocab_size, PromptInput* out) {
  if (list.empty()) return ApiError::Invalid("prompt", "prompt must not be an empty list");
  out->is_ids = true;
  for (const ordered_json& item : list) {
    const std::optional<TokenId> id = AsTokenId(item, vocab_size);
    if (!id) {
      return ApiError::Invalid("prompt", "prompt must hold token ids from 0 to {}, found {}", vocab_size - 1,
                               item.is_number() ? item.dump().substr(0, 40) : item.type_name());
    }
    out->ids.push_back(*id);
  }
  return std::nullopt;
}

// A string, a list of strings, a list of ids, a list of id lists.
MaybeError ParsePrompts(const ordered_json* prompt, const ApiOptions& options,
                        std::vector<PromptInput>* out) {
  if (prompt == nullptr) return ApiError::Invalid("prompt", "prompt is missing");
  if (prompt->is_string()) {
    out->push_back({prompt->get<std::string>(), {}, false});
    return std::nullopt;
  }
  if (!prompt->is_array()) {
    return ApiError::Invalid("prompt",
                             "prompt must be a string, a list of strings, of ids or of id lists, found {}",
                             prompt->type_name());
  }
  if (prompt->empty()) return ApiError::Invalid("prompt", "prompt must not be an empty list");
  const uint32_t vocab_size = VocabSize(options);
  if (prompt->front().is_number()) return ParseIdPrompt(*prompt, vocab_size, &out->emplace_back());
  for (const ordered_json& item : *prompt) {
    if (item.type() != prompt->front().type() || (!item.is_string() && !item.is_array())) {
      return ApiError::Invalid("prompt",
                               "prompt must hold strings, ids or id lists, and one kind of them, found {}",
                               item.type_name());
    }
    PromptInput& input = out->emplace_back();
    if (item.is_string()) {
      input.text = item.get<std::string>();
    } else if (MaybeError error = ParseIdPrompt(item, vocab_size, &input)) {
      return error;
    }
  }
  return std::nullopt;
}

MaybeError CheckChoiceCount(size_t num_prompts, uint32_t n, const ApiOptions& options) {
  if (num_prompts * n <= options.limits.queued_requests) return std::nullopt;
  return ApiError::Invalid("prompt",
                           "prompts x n is {}, over the {} that can be queued; send several requests",
                           num_prompts * n, options.limits.queued_requests);
}

}  // namespace

MaybeError ParseCompletionRequest(const ordered_json& body, const ApiOptions& options,
                                  CompletionRequest* out) {
  if (MaybeError error = CheckFields(body, kCompletionRoute, options)) return error;
  const FieldReader fields(body);
  if (MaybeError error = ParseParams(fields, options, kCompletionRoute, &out->params)) return error;
  if (MaybeError error = ParsePrompts(fields.Find("prompt"), options, &out->prompts)) return error;
  return CheckChoiceCount(out->prompts.size(), out->params.n, options);
}

MaybeError ParseChatRequest(const ordered_json& body, const ApiOptions& options, ChatRequest* out) {
  if (MaybeError error = CheckFields(body, kChatRoute, options)) return error;
  const FieldReader fields(body);
  if (MaybeError error = ParseParams(fields, options, kChatRoute, &out->params)) return error;
  return ParseChatInput(fields, options, &out->chat);
}

MaybeError ParseTokenizeRequest(const ordered_json& body, const ApiOptions& options, TokenizeRequest* out) {
  if (MaybeError error = CheckFields(body, kTokenizeRoute, options)) return error;
  const FieldReader fields(body);
  const ordered_json* prompt = fields.Find("prompt");
  const bool chat = fields.Find("messages") != nullptr;
  if ((prompt != nullptr) == chat) {
    return ApiError::Invalid("prompt", "one of prompt and messages is needed, found {}",
                             chat ? "both" : "neither");
  }
  out->add_special_tokens = fields.Bool("add_special_tokens", !chat);
  if (!chat) {
    out->prompt = prompt->get<std::string>();
    return std::nullopt;
  }
  return ParseChatInput(fields, options, &out->chat.emplace());
}

MaybeError ParseDetokenizeRequest(const ordered_json& body, const ApiOptions& options,
                                  std::vector<TokenId>* out) {
  if (MaybeError error = CheckFields(body, kDetokenizeRoute, options)) return error;
  const ordered_json* tokens = FieldReader(body).Find("tokens");
  if (tokens == nullptr) return ApiError::Invalid("tokens", "tokens is missing");
  *out = IdList(tokens);
  return std::nullopt;
}

}  // namespace paceline
