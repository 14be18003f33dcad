// Generation: the seam between the HTTP front and the engine behind it.
//
// The front (coordinator/api, its own threads) makes a GenerationRequest per prompt and choice and hands it
// to the Engine; the engine's thread calls the sink with deltas until one carries a finish reason. The
// coordinator's shell implements Engine over the core; tests of the front implement it with a script.
//
// Threading: Submit and Cancel may be called from any thread and do not block. A sink is called from the
// engine's thread only, never after its last delta, and must not block (it posts to its own loop). Limits:
// Submit answers ResourceExhausted when the queue holds --max-queued-requests. Failure: when the engine
// cannot go on, every open sink gets a delta with FinishReason::kError.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/sampling_params.h"
#include "common/protocol/speculation.h"
#include "common/protocol/types.h"

namespace paceline {

enum class FinishReason : uint8_t {
  kNone,       // more will come
  kStop,       // an end id, a stop id or a stop string
  kLength,     // max_tokens or the context
  kCancelled,  // by the client; nobody reads it
  kError,      // `error` says why
};

// Watches the text of one choice as its ids are committed. Called by the engine in token order, once per id
// that is kept; implemented with a streaming detokenizer and a stop matcher
// (coordinator/request/choice_text.h).
class TextWatcher {
 public:
  virtual ~TextWatcher() = default;
  // True when a stop string completed with this id. `searchable` is false for the first min_tokens ids.
  // `hidden` ids (an end or stop id that ends the choice) add no text.
  virtual bool OnToken(TokenId id, bool searchable, bool hidden) = 0;
  // Text that may be shown now: everything but incomplete characters and possible starts of a stop string;
  // all of it when `finished`. Called after each run of OnToken.
  virtual std::string TakeText(bool finished) = 0;
  virtual std::string stop_string() const = 0;  // the one that completed, else empty
};

struct GenerationRequest {
  std::string request_id;             // for logs: "chatcmpl-..."
  std::vector<TokenId> prompt;        // not empty, ids in the vocabulary, shorter than max_model_len
  SamplingParams sampling;            // choice index and seed set; max_tokens within the context
  std::shared_ptr<TextWatcher> text;  // may be null (ids only)
};

struct GenerationDelta {
  std::vector<TokenId> ids;             // committed now, in order; trimmed at the end of the choice
  std::vector<TokenLogprobs> logprobs;  // empty, or one per id
  std::string text;                     // what TextWatcher::TakeText gave
  FinishReason finish = FinishReason::kNone;
  std::optional<TokenId> stop_token;  // the stop id that ended it, if not the primary end id
  std::string stop_string;            // the stop string that ended it
  Status error;                       // with kError
  bool was_running = false;           // with kCancelled: it had left the queue
  // Totals of the choice so far: for usage and per-request acceptance.
  uint32_t num_drafted = 0;
  uint32_t num_accepted = 0;
  uint32_t num_steps = 0;          // verdicts that brought ids
  uint32_t num_cached_prompt = 0;  // prompt tokens whose K/V came from the prefix cache
};

using GenerationSink = std::function<void(GenerationDelta)>;

class Engine {
 public:
  virtual ~Engine() = default;
  // The id to cancel by. ResourceExhausted: queue full; Unavailable: loading, draining or lost.
  virtual StatusOr<SequenceId> Submit(GenerationRequest request, GenerationSink sink) = 0;
  virtual void Cancel(SequenceId sequence) = 0;
  // The client reads slower than the engine writes: plan no new step of the sequence until it is resumed.
  // What is in flight still arrives. An engine may leave it out (the default): the front bounds what it
  // holds, and drops a client that stays behind.
  virtual void SetPaused(SequenceId /*sequence*/, bool /*paused*/) {}
  // Ready to serve; else what is missing, for /health and /readyz. Never takes the engine's lock. The message
  // begins with "loading" or "draining" where that is the cause.
  virtual Status Readiness() const = 0;
};

}  // namespace paceline
