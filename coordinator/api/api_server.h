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

#include <memory>

#include "common/base/status.h"
#include "coordinator/api/api_options.h"
#include "coordinator/api/metrics.h"
#include "coordinator/request/generation.h"

namespace paceline {

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
  // Requests between their last byte in and the end of their answer: 0 when idle. Any thread.
  size_t num_open_requests() const;

 private:
  class Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
