// ApiOptions: what the front is told when it starts. Plain data; the coordinator's shell fills it from flags,
// the model file and the engine. Each value is honoured or refused by ApiServer::Start.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/model/special_ids.h"
#include "common/protocol/types.h"
#include "coordinator/api/http_types.h"

namespace paceline {

class ChatTemplate;
class Tokenizer;

// --limit-NAME flags of what is parsed; those of the socket are in HttpLimits.
struct ApiLimits {
  uint32_t json_depth = 64;
  uint32_t chat_messages = 4096;
  uint32_t stop_strings = 16;
  uint32_t stop_string_bytes = 256;
  uint32_t n = 16;
  uint32_t logit_bias_entries = 1024;
  uint32_t queued_requests = 2048;  // also: choices of one request, requests waiting at the door
  uint64_t template_steps = 500'000;
  uint64_t template_output_bytes = 8 << 20;
};

enum class ContentFormat { kAuto, kString, kOpenai };  // --chat-template-content-format

struct ApiOptions {
  // Where.
  std::string host = "127.0.0.1";
  uint16_t port = 8000;   // 0 = the system chooses
  std::string uds;        // path; given: host and port are not used
  std::string root_path;  // prefix that a proxy leaves on
  HttpLimits http;
  ApiLimits limits;
  uint32_t door_threads = 1;

  // Who.
  std::vector<std::string> api_keys;  // empty = open; guards every route but probes and the page
  std::vector<std::string> allowed_origins, allowed_methods, allowed_headers;  // CORS; "*" = any
  bool allow_credentials = false;
  bool request_id_headers = true;

  // Which model.
  std::vector<std::string> served_model_names;  // at least one; the first is echoed
  std::string model_root;                       // path or hub id, /v1/models `root`
  uint32_t max_model_len = 0;                   // tokens, prompt and answer together
  uint32_t vocab_size = 0;                      // rows of the model's logits; 0 = the tokenizer's
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null: chat is refused with the reason below
  std::string chat_template_missing;                  // "the model file has no chat template"
  std::string bos_token, eos_token;                   // text, for the template
  std::string default_chat_template_kwargs;           // JSON object, or empty
  ContentFormat content_format = ContentFormat::kAuto;
  std::string response_role = "assistant";
  // The target's end ids, the primary one first (tokenizer, then generation_config).
  std::vector<TokenId> eos_token_ids;
  GenerationDefaults defaults;  // a field of the request wins over each

  // How.
  uint32_t max_logprobs = 20;
  bool return_tokens_as_token_ids = false;
  bool enable_prompt_tokens_details = false;
  bool force_include_usage = false;
  bool enable_tokenizer_info = false;
  bool log_requests = false;
  uint32_t stream_interval = 1;      // tokens per streamed chunk, at least
  Duration sse_ping_interval = 15s;  // 0 = off

  std::string version = "0.1.0", build, protocol;
};

}  // namespace paceline
