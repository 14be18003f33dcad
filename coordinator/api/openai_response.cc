#include "coordinator/api/openai_response.h"

#include <nlohmann/json.hpp>

#include "common/base/check.h"

namespace paceline {
namespace {

using nlohmann::ordered_json;

std::string Dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string EventText(const ordered_json& value) { return "data: " + Dump(value) + "\n\n"; }

ordered_json UsageJson(const Usage& usage) {
  ordered_json out = {{"prompt_tokens", usage.num_prompt_tokens},
                      {"completion_tokens", usage.num_completion_tokens},
                      {"total_tokens", uint64_t{usage.num_prompt_tokens} + usage.num_completion_tokens}};
  if (usage.num_cached) out["prompt_tokens_details"] = {{"cached_tokens", *usage.num_cached}};
  out["completion_tokens_details"] = {{"reasoning_tokens", 0},
                                      {"accepted_prediction_tokens", usage.num_accepted},
                                      {"rejected_prediction_tokens", usage.num_rejected}};
  return out;
}

void AddEnd(const ChoicePart& part, ordered_json* choice) {
  (*choice)["finish_reason"] = FinishReasonText(part.finish);
  ordered_json& reason = (*choice)["stop_reason"];
  if (!part.stop_string.empty()) {
    reason = part.stop_string;
  } else if (part.stop_token) {
    reason = *part.stop_token;
  }
}

}  // namespace

std::string_view FinishReasonText(FinishReason reason) {
  CHECK(reason == FinishReason::kStop || reason == FinishReason::kLength) << "a choice that ended well";
  return reason == FinishReason::kStop ? "stop" : "length";
}

AnswerWriter::AnswerWriter(AnswerHead head, const Tokenizer& tokenizer)
    : head_(std::move(head)), logprobs_(tokenizer, head_.tokens_as_ids) {}

ordered_json AnswerWriter::Top(bool streamed) const {
  const char* object = !head_.chat ? "text_completion"
                       : streamed  ? "chat.completion.chunk"
                                   : "chat.completion";
  return {{"id", head_.id},
          {"object", object},
          {"created", head_.created},
          {"model", head_.model},
          {"seed", head_.seed}};
}

ordered_json AnswerWriter::Logprobs(const ChoicePart& part) const {
  if (!head_.logprobs) return nullptr;
  return head_.chat ? logprobs_.Chat(part.ids, part.logprobs)
                    : logprobs_.Completion(part.ids, part.logprobs, part.text_offset);
}

void AnswerWriter::AddIds(const ChoicePart& part, ordered_json* choice) const {
  if (!head_.return_token_ids) return;
  if (part.prompt != nullptr) (*choice)["prompt_token_ids"] = *part.prompt;
  (*choice)["token_ids"] = part.ids;
}

std::string AnswerWriter::Plain(std::span<const ChoicePart> choices, const Usage& usage) const {
  ordered_json body = Top(false);
  ordered_json& list = body["choices"] = ordered_json::array();
  for (const ChoicePart& part : choices) {
    ordered_json choice = {{"index", part.index}};
    if (head_.chat) {
      choice["message"] = {{"role", head_.role}, {"content", part.text}};
    } else {
      choice["text"] = part.text;
    }
    choice["logprobs"] = Logprobs(part);
    AddEnd(part, &choice);
    AddIds(part, &choice);
    list.push_back(std::move(choice));
  }
  body["usage"] = UsageJson(usage);
  return Dump(body);
}

std::string AnswerWriter::Event(ordered_json choice, const Usage& usage) const {
  ordered_json chunk = Top(true);
  chunk["choices"] = ordered_json::array({std::move(choice)});
  if (head_.include_usage) {
    chunk["usage"] = head_.continuous_usage ? UsageJson(usage) : ordered_json(nullptr);
  }
  return EventText(chunk);
}

std::string AnswerWriter::RoleEvent(const ChoicePart& part, const Usage& usage) const {
  ordered_json choice = {{"index", part.index}, {"delta", {{"role", head_.role}, {"content", ""}}}};
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = nullptr;
  if (head_.return_token_ids && part.prompt != nullptr) choice["prompt_token_ids"] = *part.prompt;
  return Event(std::move(choice), usage);
}

std::string AnswerWriter::ContentEvent(const ChoicePart& part, const Usage& usage) const {
  ordered_json choice = {{"index", part.index}};
  if (head_.chat) {
    choice["delta"] = {{"content", part.text}};
  } else {
    choice["text"] = part.text;
  }
  choice["logprobs"] = Logprobs(part);
  choice["finish_reason"] = nullptr;
  AddIds(part, &choice);
  return Event(std::move(choice), usage);
}

std::string AnswerWriter::FinishEvent(const ChoicePart& part, const Usage& usage) const {
  ordered_json choice = {{"index", part.index}};
  if (head_.chat) {
    choice["delta"] = ordered_json::object();
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  AddEnd(part, &choice);
  return Event(std::move(choice), usage);
}

std::string AnswerWriter::UsageEvent(const Usage& usage) const {
  ordered_json chunk = Top(true);
  chunk["choices"] = ordered_json::array();
  chunk["usage"] = UsageJson(usage);
  return EventText(chunk);
}

std::string AnswerWriter::ErrorEvent(const ApiError& error, const Usage& usage) const {
  ordered_json event = ordered_json::parse(ErrorBody(error));
  event["usage"] = UsageJson(usage);
  return EventText(event);
}

}  // namespace paceline
