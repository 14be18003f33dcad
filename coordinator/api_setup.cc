#include "coordinator/api_setup.h"

#include <fstream>
#include <iterator>

#include "common/base/log.h"
#include "common/base/version.h"
#include "common/model/special_ids.h"
#include "common/text/open_tokenizer.h"
#include "common/text/template/chat_template.h"

namespace paceline {
namespace {

Duration Seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// --chat-template is a path, or the text itself when it holds template syntax.
StatusOr<std::string> TemplateText(const std::string& flag) {
  std::ifstream in(flag, std::ios::binary);
  if (in.good()) return std::string(std::istreambuf_iterator<char>(in), {});
  if (flag.find("{%") != std::string::npos || flag.find("{{") != std::string::npos) return flag;
  return NotFoundError("--chat-template: no file '{}', and it is no template text", flag);
}

Status SetTemplate(const ServeConfig& config, const ModelText& text, ApiOptions& out) {
  std::string source = text.chat_template;
  if (!config.chat_template.empty()) {
    ASSIGN_OR_RETURN(source, TemplateText(config.chat_template));
  }
  if (source.empty()) {
    out.chat_template_missing = "the model has no chat template; give one with --chat-template";
    return OkStatus();
  }
  StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  Status status = parsed.ok() ? CheckTemplate(source) : parsed.status();
  if (status.ok()) {
    out.chat_template = std::make_shared<const ChatTemplate>(*std::move(parsed));
    return OkStatus();
  }
  // The user's own template is an error; a model file's leaves the model without chat (a file may hold
  // anything).
  if (!config.chat_template.empty()) return Annotate(status, "--chat-template");
  out.chat_template_missing = fmt::format("the model's chat template cannot be used: {}", Message(status));
  LogWarn("chat_template_refused", "reason=\"{}\" then=\"chat is refused, completions work\"",
          Message(status));
  return OkStatus();
}

void SetLimits(const ServeConfig& config, ApiOptions& out) {
  const LimitConfig& limits = config.limits;
  out.http.request_line_bytes = limits.request_line_bytes;
  out.http.header_line_bytes = limits.header_line_bytes;
  out.http.headers_bytes = limits.headers_bytes;
  out.http.body_bytes = limits.body_bytes;
  out.http.header_time = Seconds(limits.header_seconds);
  out.http.body_time = Seconds(limits.body_seconds);
  out.http.idle_time = Seconds(limits.idle_seconds);
  out.http.connections = limits.connections;
  out.limits.json_depth = limits.json_depth;
  out.limits.chat_messages = limits.messages;
  out.limits.stop_strings = limits.stop_strings;
  out.limits.n = limits.n;
  out.limits.logit_bias_entries = limits.logit_bias;
  out.limits.queued_requests = config.max_queued_requests;
  out.limits.template_steps = limits.template_steps;
  out.limits.template_output_bytes = limits.template_output_bytes;
}

void SetApi(const ServeConfig& config, ApiOptions& out) {
  const ApiConfig& api = config.api;
  out.host = api.host;
  out.port = api.port;
  out.uds = api.uds;
  out.root_path = api.root_path;
  out.api_keys = api.api_keys;
  out.allowed_origins = api.allowed_origins;
  out.allowed_methods = api.allowed_methods;
  out.allowed_headers = api.allowed_headers;
  out.allow_credentials = api.allow_credentials;
  out.request_id_headers = api.request_id_headers;
  out.max_logprobs = api.max_logprobs;
  out.return_tokens_as_token_ids = api.tokens_as_ids;
  out.force_include_usage = api.force_include_usage;
  out.log_requests = api.log_requests;
  out.stream_interval = api.stream_interval;
  out.sse_ping_interval = Seconds(api.sse_ping_seconds);
  out.response_role = config.response_role;
  out.default_chat_template_kwargs = config.chat_template_kwargs;
  out.content_format = config.chat_template_content_format == "string"   ? ContentFormat::kString
                       : config.chat_template_content_format == "openai" ? ContentFormat::kOpenai
                                                                         : ContentFormat::kAuto;
  out.served_model_names = config.served_model_names;
  out.model_root = config.model;
}

}  // namespace

StatusOr<ApiOptions> MakeApiOptions(const ServeConfig& config, const ServedModel& served) {
  ApiOptions out;
  SetApi(config, out);
  SetLimits(config, out);
  out.version = kPacelineVersion;
  out.build = kBuildId;
  out.protocol = fmt::format("{}.{}", kProtocolMajor, kProtocolMinor);
  out.max_model_len = served.max_model_len;
  out.vocab_size = served.source->config().vocab_size;

  ASSIGN_OR_RETURN(ModelText text, OpenTokenizer(config.model));
  RETURN_IF_ERROR(SetTemplate(config, text, out));
  out.bos_token = text.bos_text;
  out.eos_token = text.eos_text;
  ASSIGN_OR_RETURN(const ModelDefaults defaults, LoadModelDefaults(config.model));
  out.defaults = defaults.generation;
  // The primary end id first: the tokenizer's, then the rest of generation_config or of the GGUF markers.
  const std::optional<TokenId> primary = text.tokenizer->eos();
  if (primary.has_value()) out.eos_token_ids.push_back(*primary);
  for (const uint32_t id : defaults.ids.eos) {
    if (static_cast<TokenId>(id) != primary) out.eos_token_ids.push_back(static_cast<TokenId>(id));
  }
  out.tokenizer = std::move(text.tokenizer);
  return out;
}

}  // namespace paceline
