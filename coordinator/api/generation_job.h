// GenerationJob: one generating request from Submit to the last byte of its answer, plain or streamed.
//
// Owner: the sinks of its choices and the front's list of open requests. I/O thread only; the sinks post to
// it. Ordering: within a choice, events leave in token order; choices are independent and end on their own.
// Promises: the 200 is sent only after every choice was accepted by the engine. If the client goes, every
// open choice is cancelled at once. A client that reads slowly pauses the choices.
// Failure: before the 200 an error answer; after it one error event with the usage so far, then the close,
// without [DONE].
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/api_options.h"
#include "coordinator/api/http_server.h"
#include "coordinator/api/metrics.h"
#include "coordinator/api/openai_response.h"
#include "coordinator/api/request_door.h"
#include "coordinator/request/generation.h"

namespace paceline {

struct JobServices {
  Engine* engine = nullptr;
  ServerMetrics* metrics = nullptr;
  const ApiOptions* options = nullptr;
  HttpServer::Poster post;
};

class GenerationJob : public std::enable_shared_from_this<GenerationJob> {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;
  struct Origin {
    std::shared_ptr<HttpExchange> exchange;
    Headers headers;  // for the answer: request id, CORS
    std::string id;   // "chatcmpl-..." or "cmpl-..."
    Instant arrived;
  };

  // `done` runs once, when the answer is complete or nobody waits for it.
  GenerationJob(JobServices services, PreparedRequest request, Origin origin, std::function<void()> done);

  void Start();
  // Ends the request with this error; the server stops.
  void Abort(const Status& status);

 private:
  struct Choice {
    SequenceId sequence;
    size_t prompt = 0;  // index into request_.prompts
    ChoicePart part;    // plain: everything; stream: what waits for its chunk
    uint32_t num_tokens = 0;
    uint32_t num_drafted = 0;
    uint32_t num_accepted = 0;
    uint32_t num_cached = 0;
    bool ended = false;
    Instant first_token{}, last_token{};
  };

  Status SubmitAll();
  GenerationRequest RequestOf(const Choice& choice, uint32_t choice_index) const;
  void OnDelta(size_t index, GenerationDelta delta);
  void Count(Choice& choice, const GenerationDelta& delta);
  void Stream(Choice& choice, bool first_tokens);
  void EndChoice(Choice& choice);
  void Complete();
  void Fail(const ApiError& error);
  void OnGone();
  void CancelOpen();
  void Close(int status);
  Usage UsageSoFar() const;
  bool tokens_shown() const;

  const JobServices services_;
  PreparedRequest request_;
  const Origin origin_;
  std::function<void()> done_;
  AnswerWriter writer_;
  std::vector<Choice> choices_;
  size_t num_open_ = 0;
  bool stream_started_ = false;  // the 200 is out
  bool closed_ = false;
};

// 53 random bits: any JSON reader gives them back unchanged.
int64_t DrawSeed();

}  // namespace paceline
