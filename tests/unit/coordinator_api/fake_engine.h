// FakeEngine: the engine as the front sees it, playing a script per choice on a thread of its own.
//
// Trims as the contract says: ids one at a time, stop ids and stop strings before the cap, nothing behind the
// first end. Deltas of several choices are interleaved.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/request/generation.h"

namespace paceline::testing {

// What one choice would say: runs of ids, as steps of speculation commit them.
struct Script {
  std::vector<std::vector<TokenId>> runs;
  Duration step_time{};          // before each run
  bool waits = false;            // until Release: a long prefill, or a place in the queue
  std::optional<Status> breaks;  // after the runs, instead of an end
};

// One byte a token, in runs of `run` (ids of ByteTokenizer are bytes).
Script Says(std::string_view text, size_t run = 1);

class FakeEngine : public Engine {
 public:
  FakeEngine();
  ~FakeEngine() override;

  StatusOr<SequenceId> Submit(GenerationRequest request, GenerationSink sink) override;
  void Cancel(SequenceId sequence) override;
  void SetPaused(SequenceId sequence, bool paused) override;
  Status Readiness() const override;

  void set_script(std::function<Script(const GenerationRequest&)> script);
  void set_submit_error(Status status, size_t after = 0);  // the first `after` submits go well
  void set_readiness(Status status);
  void Release();

  std::vector<GenerationRequest> requests() const;  // as submitted
  size_t num_open() const;
  size_t num_cancelled() const { return num_cancelled_; }
  size_t num_pauses() const { return num_pauses_; }

 private:
  struct Sequence {
    GenerationRequest request;
    GenerationSink sink;
    Script script;
    size_t next_run = 0;
    uint32_t num_tokens = 0;
    uint32_t num_steps = 0;
    uint32_t num_accepted = 0;
    Instant next_at;
    bool paused = false;
  };

  void Run();
  // Plays one run; true when the sequence has ended.
  bool Step(Sequence& sequence);
  bool Append(Sequence& sequence, TokenId id, GenerationDelta* delta);

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<SequenceId, Sequence> open_;
  std::vector<GenerationRequest> requests_;
  std::function<Script(const GenerationRequest&)> script_;
  std::optional<Status> submit_error_;
  size_t submits_before_error_ = 0;
  Status readiness_;
  bool released_ = false;
  bool stop_ = false;
  uint64_t next_sequence_ = 1;
  std::atomic<size_t> num_cancelled_ = 0, num_pauses_ = 0;
  std::thread thread_;
};

}  // namespace paceline::testing
