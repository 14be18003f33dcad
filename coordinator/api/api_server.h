// ApiServer: the OpenAI-compatible front of the coordinator.
//
// Owner: the coordinator's shell. Threads: one I/O thread ("api-io": sockets, answers) and `door_threads`
// ("api-door-N": parse, template, tokenize), so that a large prompt does not hold up the streams of others.
// The engine's sinks only post to the I/O thread. Start, Stop and BeginDrain may be called from any one
// thread.
// Promises: everything is validated before the engine sees it and before a 200 is sent; a client that closes
// its socket cancels its request; nothing a client sends is answered with 5xx.
// Limits: ApiLimits, HttpLimits. Failure: an engine that is not ready is 503, a full queue 429.
//
//   ApiOptions options;
//   options.served_model_names = {"smollm2"};
//   options.tokenizer = tokenizer; options.chat_template = chat_template; options.max_model_len = 2048;
//   ASSIGN_OR_RETURN(auto api, ApiServer::Start(std::move(options), &engine, &metrics));
//   LogInfo("api_listening", "port={}", api->port());
//   ...
//   api->Stop(30s);   // drain for that long, then end what is left with an error
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/types.h"
#include "coordinator/api/http_types.h"
#include "coordinator/api/metrics.h"
#include "coordinator/request/generation.h"

namespace paceline {

class ChatTemplate;
class Tokenizer;

// The model's own wishes (generation_config.json). A field of the request wins over each.
struct GenerationDefaults {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<uint32_t> max_new_tokens;
};

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
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null: chat is refused with the reason below
  std::string chat_template_missing;                  // "the model file has no chat template"
  std::string bos_token, eos_token;                   // text, for the template
  std::string default_chat_template_kwargs;           // JSON object, or empty
  ContentFormat content_format = ContentFormat::kAuto;
  std::string response_role = "assistant";
  // The target's end ids, the primary one first (tokenizer, then generation_config).
  std::vector<TokenId> eos_token_ids;
  GenerationDefaults defaults;

  // How.
  uint32_t max_logprobs = 20;
  bool return_tokens_as_token_ids = false;
  bool enable_prompt_tokens_details = false;
  bool force_include_usage = false;
  bool enable_tokenizer_info = false;
  bool priority_scheduling = false;
  bool log_requests = false;
  uint32_t stream_interval = 1;      // tokens per streamed chunk, at least
  Duration sse_ping_interval = 15s;  // 0 = off

  std::string version = "0.1.0", build, protocol;
};

class ApiServer {
 public:
  // `engine` and `metrics` outlive the server. InvalidArgument: options that do not fit together;
  // Unavailable: the address is in use.
  static StatusOr<std::unique_ptr<ApiServer>> Start(ApiOptions options, Engine* engine,
                                                    ServerMetrics* metrics);
  ~ApiServer();  // Stop(0)

  uint16_t port() const;
  // New requests are answered 503 `draining`; those at work go on.
  void BeginDrain();
  // Drains for at most `drain`, then ends what is left with an error, closes and joins. Idempotent.
  void Stop(Duration drain);
  // Requests between arrival and their last byte: 0 when idle.
  size_t num_open_requests() const;

 private:
  class Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
