#include "coordinator/api/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include "common/base/log.h"
#include "common/text/tokenizer.h"

namespace paceline {
namespace {

using nlohmann::ordered_json;

constexpr uint8_t kGenerating = kChatRoute | kCompletionRoute;
constexpr uint8_t kEvery = kGenerating | kTokenizeRoute | kDetokenizeRoute;
constexpr uint32_t kTemplateVariablesMax = 256;
constexpr double kInt64Max = 9223372036854775807.0;
constexpr double kInt64Min = -9223372036854775808.0;

FieldRule Integer(std::string_view name, uint8_t routes, double min, double max) {
  return {.name = name, .routes = routes, .kind = FieldKind::kInteger, .min = min, .max = max};
}
FieldRule Number(std::string_view name, double min, double max) {
  return {.name = name, .routes = kGenerating, .kind = FieldKind::kNumber, .min = min, .max = max};
}
FieldRule Bool(std::string_view name, uint8_t routes) {
  return {.name = name, .routes = routes, .kind = FieldKind::kBool};
}
FieldRule Plain(std::string_view name, uint8_t routes, FieldKind kind) {
  return {.name = name, .routes = routes, .kind = kind};
}
FieldRule Refused(std::string_view name, uint8_t routes) {
  return {.name = name, .routes = routes, .kind = FieldKind::kAny, .use = FieldUse::kRefused};
}
FieldRule NoEffect(std::string_view name) {
  return {.name = name, .routes = kGenerating, .kind = FieldKind::kAny, .use = FieldUse::kNoEffect};
}

void AddSamplingFields(const ApiOptions& options, std::vector<FieldRule>* out) {
  // FLT_MIN stands for "over 0": what is smaller would be 0 as a float.
  out->insert(out->end(), {
                              Number("temperature", 0, FLT_MAX),
                              Number("top_p", FLT_MIN, 1),
                              Integer("top_k", kGenerating, -1, INT32_MAX),
                              Number("min_p", 0, 1),
                              Number("presence_penalty", -2, 2),
                              Number("frequency_penalty", -2, 2),
                              Number("repetition_penalty", FLT_MIN, FLT_MAX),
                              Integer("seed", kGenerating, kInt64Min, kInt64Max),
                              Integer("n", kGenerating, 1, options.limits.n),
                              Integer("max_tokens", kGenerating, 1, kInt64Max),
                              Integer("max_completion_tokens", kGenerating, 1, kInt64Max),
                              Integer("min_tokens", kGenerating, 0, kInt64Max),
                              Integer("logprobs", kCompletionRoute, 0, options.max_logprobs),
                              Bool("logprobs", kChatRoute),
                              Integer("top_logprobs", kChatRoute, 0, options.max_logprobs),
                          });
  out->push_back({.name = "logit_bias",
                  .routes = kGenerating,
                  .kind = FieldKind::kIdBias,
                  .min = -100,
                  .max = 100,
                  .count_max = options.limits.logit_bias_entries});
  for (std::string_view name : {"stop", "bad_words"}) {
    out->push_back({.name = name,
                    .routes = kGenerating,
                    .kind = FieldKind::kTextList,
                    .count_max = options.limits.stop_strings,
                    .bytes_max = options.limits.stop_string_bytes});
  }
  out->push_back(Plain("stop_token_ids", kGenerating, FieldKind::kIdList));
  out->push_back(Plain("allowed_token_ids", kGenerating, FieldKind::kIdList));
}

}  // namespace

std::vector<FieldRule> RequestFields(const ApiOptions& options) {
  std::vector<FieldRule> out;
  out.push_back(Plain("model", kEvery, FieldKind::kString));
  out.push_back(Plain("prompt", kCompletionRoute, FieldKind::kAny));  // four shapes, read by its own code
  out.push_back(Plain("prompt", kTokenizeRoute, FieldKind::kString));
  out.push_back(Plain("tokens", kDetokenizeRoute, FieldKind::kIdList));
  FieldRule messages = Plain("messages", kChatRoute | kTokenizeRoute, FieldKind::kList);
  messages.count_max = options.limits.chat_messages;
  out.push_back(messages);
  FieldRule kwargs = Plain("chat_template_kwargs", kChatRoute | kTokenizeRoute, FieldKind::kObject);
  kwargs.count_max = kTemplateVariablesMax;
  out.push_back(kwargs);
  out.push_back(Bool("add_generation_prompt", kChatRoute | kTokenizeRoute));
  out.push_back(Bool("add_special_tokens", kGenerating | kTokenizeRoute));
  AddSamplingFields(options, &out);
  for (std::string_view name :
       {"include_stop_str_in_output", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens",
        "return_token_ids", "return_tokens_as_token_ids", "stream"}) {
    out.push_back(Bool(name, kGenerating));
  }
  out.push_back(Plain("stream_options", kGenerating, FieldKind::kObject));
  out.push_back(Plain("tool_choice", kChatRoute, FieldKind::kAny));
  out.push_back(Plain("response_format", kGenerating, FieldKind::kObject));
  for (std::string_view name : {"user", "store", "metadata", "parallel_tool_calls", "service_tier"}) {
    out.push_back(NoEffect(name));
  }
  for (std::string_view name : {"suffix", "use_beam_search", "length_penalty", "logits_processors",
                                "truncate_prompt_tokens", "prompt_logprobs", "echo", "priority"}) {
    out.push_back(Refused(name, kGenerating));
  }
  for (std::string_view name :
       {"tools", "functions", "function_call", "chat_template", "continue_final_message"}) {
    out.push_back(Refused(name, kChatRoute | kTokenizeRoute));
  }
  return out;
}

uint32_t VocabSize(const ApiOptions& options) {
  return options.vocab_size != 0 ? options.vocab_size : options.tokenizer->vocab_size();
}

std::optional<int64_t> AsInteger(const ordered_json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  const bool whole = std::isfinite(number) && std::trunc(number) == number;
  // The largest double below 2^63 is what fits; 2^63 itself does not.
  if (!whole || number < kInt64Min || number >= kInt64Max) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<TokenId> AsTokenId(const ordered_json& value, uint32_t vocab_size) {
  const std::optional<int64_t> id = AsInteger(value);
  if (!id || *id < 0 || *id >= static_cast<int64_t>(vocab_size)) return std::nullopt;
  return static_cast<TokenId>(*id);
}

namespace {

// A bound as people write it: 1, 0.5, 9223372036854775807.
std::string Bound(double bound) {
  if (bound >= kInt64Max) return "9223372036854775807";
  if (bound <= kInt64Min) return "-9223372036854775808";
  return fmt::format("{:.10g}", bound);
}

std::string Found(const ordered_json& value) {
  if (value.is_number() || value.is_boolean()) return value.dump().substr(0, 40);
  return std::string(value.type_name());
}

MaybeError CheckInteger(const FieldRule& rule, const ordered_json& value) {
  const std::optional<int64_t> number = AsInteger(value);
  const bool in_range = number && (rule.min <= kInt64Min || *number >= static_cast<int64_t>(rule.min)) &&
                        (rule.max >= kInt64Max || *number <= static_cast<int64_t>(rule.max));
  if (in_range) return std::nullopt;
  return ApiError::Invalid(rule.name, "{} must be an integer from {} to {}, found {}", rule.name,
                           Bound(rule.min), Bound(rule.max), Found(value));
}

MaybeError CheckNumber(const FieldRule& rule, const ordered_json& value) {
  if (value.is_number()) {
    const double number = value.get<double>();
    if (number >= rule.min && number <= rule.max) return std::nullopt;
  }
  return ApiError::Invalid(rule.name, "{} must be a number from {} to {}, found {}", rule.name,
                           Bound(rule.min), Bound(rule.max), Found(value));
}

MaybeError CheckText(const FieldRule& rule, const ordered_json& value) {
  if (!value.is_string())
    return ApiError::Invalid(rule.name, "{} must hold strings, found {}", rule.name, Found(value));
  const size_t bytes = value.get_ref<const std::string&>().size();
  if (bytes == 0) return ApiError::Invalid(rule.name, "{} must not hold an empty string", rule.name);
  if (rule.bytes_max == 0 || bytes <= rule.bytes_max) return std::nullopt;
  return ApiError::Invalid(rule.name, "{} may hold strings of up to {} bytes, found {}", rule.name,
                           rule.bytes_max, bytes);
}

MaybeError CheckCount(const FieldRule& rule, const ordered_json& value) {
  if (rule.count_max == 0 || value.size() <= rule.count_max) return std::nullopt;
  return ApiError::Invalid(rule.name, "{} may have up to {} entries, found {}", rule.name, rule.count_max,
                           value.size());
}

MaybeError CheckTextList(const FieldRule& rule, const ordered_json& value) {
  if (value.is_string()) return CheckText(rule, value);
  if (!value.is_array()) {
    return ApiError::Invalid(rule.name, "{} must be a string or a list of strings, found {}", rule.name,
                             Found(value));
  }
  if (MaybeError error = CheckCount(rule, value)) return error;
  for (const ordered_json& item : value) {
    if (MaybeError error = CheckText(rule, item)) return error;
  }
  return std::nullopt;
}

MaybeError CheckIdList(const FieldRule& rule, const ordered_json& value, uint32_t vocab_size) {
  if (!value.is_array()) {
    return ApiError::Invalid(rule.name, "{} must be a list of token ids, found {}", rule.name, Found(value));
  }
  if (MaybeError error = CheckCount(rule, value)) return error;
  for (const ordered_json& item : value) {
    if (AsTokenId(item, vocab_size)) continue;
    return ApiError::Invalid(rule.name, "{} must hold token ids from 0 to {}, found {}", rule.name,
                             vocab_size - 1, Found(item));
  }
  return std::nullopt;
}

MaybeError CheckIdBias(const FieldRule& rule, const ordered_json& value, uint32_t vocab_size) {
  if (!value.is_object()) {
    return ApiError::Invalid(rule.name, "{} must be an object of token ids, found {}", rule.name,
                             Found(value));
  }
  if (MaybeError error = CheckCount(rule, value)) return error;
  for (const auto& [key, bias] : value.items()) {
    const bool digits = !key.empty() && key.size() <= 10 &&
                        std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || std::stoull(key) >= vocab_size) {
      return ApiError::Invalid(rule.name, "{} must name token ids from 0 to {}, found \"{}\"", rule.name,
                               vocab_size - 1, key.substr(0, 32));
    }
    if (MaybeError error = CheckNumber(rule, bias)) return error;
  }
  return std::nullopt;
}

MaybeError CheckRefused(const FieldRule& rule, const ordered_json& value) {
  // false and [] ask for nothing.
  if (value == false || (value.is_array() && value.empty() && rule.name != "logits_processors"))
    return std::nullopt;
  return ApiError::Unsupported(rule.name, "{} is not supported; leave it out", rule.name);
}

MaybeError CheckKind(const FieldRule& rule, const ordered_json& value, uint32_t vocab_size) {
  const auto want = [&](bool fits, std::string_view kind) -> MaybeError {
    if (fits) return std::nullopt;
    return ApiError::Invalid(rule.name, "{} must be {}, found {}", rule.name, kind, Found(value));
  };
  switch (rule.kind) {
    case FieldKind::kInteger:
      return CheckInteger(rule, value);
    case FieldKind::kNumber:
      return CheckNumber(rule, value);
    case FieldKind::kBool:
      return want(value.is_boolean(), "true or false");
    case FieldKind::kString:
      return want(value.is_string(), "a string");
    case FieldKind::kObject: {
      MaybeError error = want(value.is_object(), "an object");
      return error ? error : CheckCount(rule, value);
    }
    case FieldKind::kList: {
      MaybeError error = want(value.is_array(), "a list");
      return error ? error : CheckCount(rule, value);
    }
    case FieldKind::kTextList:
      return CheckTextList(rule, value);
    case FieldKind::kIdList:
      return CheckIdList(rule, value, vocab_size);
    case FieldKind::kIdBias:
      return CheckIdBias(rule, value, vocab_size);
    case FieldKind::kAny:
      return std::nullopt;
  }
  return std::nullopt;
}

// Each name once per process: a client that sends it always would fill the log.
void NoteWithoutEffect(std::string_view name) {
  if (!LogEnabled(LogLevel::kDebug)) return;
  const bool plain = name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
                     });
  static std::mutex mutex;
  static std::set<std::string, std::less<>> seen;
  std::lock_guard lock(mutex);
  if (!plain || seen.size() >= 256 || !seen.emplace(name).second) return;
  LogDebug("request_field_without_effect", "field={}", name);
}

}  // namespace

MaybeError CheckFields(const ordered_json& body, ApiRoute route, const ApiOptions& options) {
  if (!body.is_object())
    return ApiError::Invalid("", "the body must be a JSON object, found {}", body.type_name());
  const std::vector<FieldRule> rules = RequestFields(options);
  const uint32_t vocab_size = VocabSize(options);
  for (const auto& [name, value] : body.items()) {
    const auto rule = std::ranges::find_if(rules, [&name = name, route](const FieldRule& r) {
      return (r.routes & route) != 0 && r.name == name;
    });
    if (rule == rules.end() || rule->use == FieldUse::kNoEffect) {
      NoteWithoutEffect(name);
      continue;
    }
    if (value.is_null()) continue;
    MaybeError error =
        rule->use == FieldUse::kRefused ? CheckRefused(*rule, value) : CheckKind(*rule, value, vocab_size);
    if (error) return error;
  }
  if (const ordered_json* model = FieldReader(body).Find("model")) {
    const std::string& name = model->get_ref<const std::string&>();
    if (std::ranges::find(options.served_model_names, name) == options.served_model_names.end()) {
      return ApiError{404,
                      "model_not_found",
                      fmt::format("no model '{}' here; served: {}", name.substr(0, 128),
                                  fmt::join(options.served_model_names, ", ")),
                      "model",
                      {},
                      {}};
    }
  }
  return std::nullopt;
}

}  // namespace paceline
