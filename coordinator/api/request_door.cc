#include "coordinator/api/request_door.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/text/template/chat_template.h"
#include "common/text/tokenizer.h"
#include "coordinator/api/json_body.h"

namespace paceline {
namespace {

using nlohmann::ordered_json;

constexpr size_t kTemplateOutputFloor =
    64 * 1024;                                 // bytes; tokens of plain text are longer than 4 bytes at times
constexpr size_t kTokenizeFloor = 128 * 1024;  // tokens; up to here a prompt's length is reported exactly

ApiError TooLong(size_t num_tokens, uint32_t max_model_len, std::string_view param) {
  ApiError error = ApiError::Invalid(param,
                                     "the prompt has {} tokens and the context {}, of which the answer needs "
                                     "at least one; shorten the prompt",
                                     num_tokens, max_model_len);
  error.code = "context_length_exceeded";
  error.context = {static_cast<uint32_t>(std::min<size_t>(num_tokens, UINT32_MAX)), max_model_len};
  return error;
}

}  // namespace

size_t RequestDoor::TokensMax() const {
  return std::max<size_t>(size_t{2} * options_.max_model_len, kTokenizeFloor);
}

MaybeError RequestDoor::Render(const ChatInput& chat, std::string* out) const {
  ordered_json context = *chat.kwargs;
  context["messages"] = *chat.messages;
  context["tools"] = nullptr;
  context["add_generation_prompt"] = chat.add_generation_prompt;
  if (!context.contains("bos_token")) context["bos_token"] = options_.bos_token;
  if (!context.contains("eos_token")) context["eos_token"] = options_.eos_token;
  RenderLimits limits;
  limits.steps_max = options_.limits.template_steps;
  // Four bytes a token are more than a prompt that fits is long, but for white space and short contexts.
  limits.output_bytes_max =
      std::min<size_t>(options_.limits.template_output_bytes,
                       std::max<size_t>(size_t{4} * options_.max_model_len, kTemplateOutputFloor));
  StatusOr<std::string> text = options_.chat_template->Render(context, limits);
  if (!text.ok()) return ApiError::Invalid("messages", "chat template: {}", Message(text.status()));
  *out = *std::move(text);
  return std::nullopt;
}

MaybeError RequestDoor::EncodeChat(const ChatInput& chat, bool add_special_tokens,
                                   std::vector<TokenId>* out) const {
  std::string text;
  if (MaybeError error = Render(chat, &text)) return error;
  StatusOr<std::vector<TokenId>> ids = options_.tokenizer->EncodeChatPrompt(
      text,
      {.add_special_tokens = add_special_tokens, .parse_special_tokens = true, .tokens_max = TokensMax()});
  if (absl::IsResourceExhausted(ids.status()))
    return TooLong(TokensMax() + 1, options_.max_model_len, "messages");
  if (!ids.ok()) return ApiError::Invalid("messages", "tokenizer: {}", Message(ids.status()));
  *out = *std::move(ids);
  return std::nullopt;
}

MaybeError RequestDoor::EncodeText(std::string_view text, bool add_special_tokens,
                                   std::vector<TokenId>* out) const {
  StatusOr<std::vector<TokenId>> ids = options_.tokenizer->Encode(
      text,
      {.add_special_tokens = add_special_tokens, .parse_special_tokens = true, .tokens_max = TokensMax()});
  if (absl::IsResourceExhausted(ids.status()))
    return TooLong(TokensMax() + 1, options_.max_model_len, "prompt");
  if (!ids.ok()) return ApiError::Invalid("prompt", "tokenizer: {}", Message(ids.status()));
  *out = *std::move(ids);
  return std::nullopt;
}

// As vLLM: a word is banned at the start of a text and, where that makes other ids, behind a space.
MaybeError RequestDoor::EncodeBadWords(RequestParams* params) const {
  for (const std::string& word : params->bad_words) {
    const std::string_view bare =
        std::string_view(word).substr(std::min(word.find_first_not_of(' '), word.size()));
    std::vector<std::vector<TokenId>> forms;
    for (const std::string& text : {std::string(bare), fmt::format(" {}", bare)}) {
      StatusOr<std::vector<TokenId>> ids =
          options_.tokenizer->Encode(text, {.add_special_tokens = false, .parse_special_tokens = true});
      if (!ids.ok()) return ApiError::Invalid("bad_words", "tokenizer: {}", Message(ids.status()));
      const bool new_word =
          forms.empty() || (ids->size() == forms[0].size() && ids->front() != forms[0].front());
      if (!ids->empty() && new_word) forms.push_back(*std::move(ids));
    }
    if (forms.empty()) return ApiError::Invalid("bad_words", "bad_words has an entry without tokens");
    for (auto& form : forms) params->sampling.bad_words.push_back(std::move(form));
  }
  return std::nullopt;
}

MaybeError RequestDoor::Finish(PreparedRequest* out) const {
  const char* param = out->chat ? "messages" : "prompt";
  for (PreparedPrompt& prompt : out->prompts) {
    if (prompt.ids.empty()) return ApiError::Invalid(param, "the prompt has no tokens");
    const uint32_t vocab_size =
        options_.vocab_size != 0 ? options_.vocab_size : options_.tokenizer->vocab_size();
    if (const auto big = std::ranges::max_element(prompt.ids); static_cast<uint32_t>(*big) >= vocab_size) {
      return ApiError::Invalid(param, "the prompt has token id {}, and the model {} ids", *big, vocab_size);
    }
    if (prompt.ids.size() >= options_.max_model_len) {
      return TooLong(prompt.ids.size(), options_.max_model_len, param);
    }
    const uint32_t room = options_.max_model_len - static_cast<uint32_t>(prompt.ids.size());
    prompt.max_tokens = std::min(out->params.max_tokens.value_or(room), room);
  }
  return EncodeBadWords(&out->params);
}

MaybeError RequestDoor::Chat(std::string_view body, PreparedRequest* out) const {
  ordered_json json;
  if (MaybeError error = ParseJsonBody(body, options_.limits.json_depth, &json)) return error;
  ChatRequest request;
  if (MaybeError error = ParseChatRequest(json, options_, &request)) return error;
  out->chat = true;
  out->params = std::move(request.params);
  if (MaybeError error =
          EncodeChat(request.chat, out->params.add_special_tokens, &out->prompts.emplace_back().ids)) {
    return error;
  }
  return Finish(out);
}

MaybeError RequestDoor::Completion(std::string_view body, PreparedRequest* out) const {
  ordered_json json;
  if (MaybeError error = ParseJsonBody(body, options_.limits.json_depth, &json)) return error;
  CompletionRequest request;
  if (MaybeError error = ParseCompletionRequest(json, options_, &request)) return error;
  out->params = std::move(request.params);
  for (PromptInput& input : request.prompts) {
    PreparedPrompt& prompt = out->prompts.emplace_back();
    if (input.is_ids) {
      prompt.ids = std::move(input.ids);
    } else if (MaybeError error = EncodeText(input.text, out->params.add_special_tokens, &prompt.ids)) {
      return error;
    }
  }
  return Finish(out);
}

MaybeError RequestDoor::Tokenize(std::string_view body, std::string* answer) const {
  ordered_json json;
  if (MaybeError error = ParseJsonBody(body, options_.limits.json_depth, &json)) return error;
  TokenizeRequest request;
  if (MaybeError error = ParseTokenizeRequest(json, options_, &request)) return error;
  std::vector<TokenId> ids;
  MaybeError error = request.chat ? EncodeChat(*request.chat, request.add_special_tokens, &ids)
                                  : EncodeText(request.prompt, request.add_special_tokens, &ids);
  if (error) return error;
  const ordered_json out = {
      {"count", ids.size()}, {"max_model_len", options_.max_model_len}, {"tokens", ids}};
  *answer = out.dump();
  return std::nullopt;
}

MaybeError RequestDoor::Detokenize(std::string_view body, std::string* answer) const {
  ordered_json json;
  if (MaybeError error = ParseJsonBody(body, options_.limits.json_depth, &json)) return error;
  std::vector<TokenId> ids;
  if (MaybeError error = ParseDetokenizeRequest(json, options_, &ids)) return error;
  ordered_json out;
  out["prompt"] = options_.tokenizer->Decode(ids, {.skip_special_tokens = false});
  *answer = out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return std::nullopt;
}

}  // namespace paceline
