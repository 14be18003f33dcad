// CoordinatorShell: the thin shell of the coordinator: control server, verdict log, timers and sinks around a
// CoordinatorCore. It is the Engine that the HTTP front talks to.
//
// Owned by main; the core is called from the loop (main thread) alone. Submit and Cancel come from the
// front's threads and only post. Failure: what the front sees of a lost stage is an error delta per open
// request; the shell stays and serves the next generation.
//
//   CoordinatorShell shell(config, options, metrics);
//   RETURN_IF_ERROR(shell.Start());
//   shell.loop().Run();
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "common/actor/event_loop.h"
#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "common/config/serve_config.h"
#include "common/transport/control_channel.h"
#include "common/transport/fabric.h"
#include "common/transport/published_log.h"
#include "coordinator/api/metrics.h"
#include "coordinator/coordinator_core.h"

namespace paceline {

class CoordinatorShell : public Engine {
 public:
  // `config` and `metrics` outlive the shell.
  CoordinatorShell(const ServeConfig& config, const CoordinatorOptions& options, ServerMetrics& metrics);
  ~CoordinatorShell() override;

  // Binds the control endpoint. FailedPrecondition: another coordinator is there.
  Status Start();
  EventLoop& loop() { return loop_; }
  // What the process ends with: not 0 when the group was not whole for --distributed-timeout-seconds.
  int exit_code() const { return exit_code_; }

  // Engine; any thread.
  StatusOr<SequenceId> Submit(GenerationRequest request, GenerationSink sink) override;
  void Cancel(SequenceId sequence) override;
  Status Readiness() const override;

  // Loop thread. No new requests; `done` is called once the running ones are through or the deadline has
  // come.
  void Drain(Instant deadline, std::function<void()> done);
  // Loop thread. Open requests end with an error that says so; workers are told to end.
  void Shutdown(std::string_view reason);

 private:
  template <typename Handler>
  void Tell(Handler handler);  // handler(core, now, outbox), then the outbox is carried out
  void ArmTimer();
  void Carry(coord::Send&& action);
  void Carry(coord::Deliver&& action);
  void Carry(coord::RequestReplay&& action);
  void Carry(coord::FollowVerdicts&& action);
  void OnSubmitted(SequenceId sequence, GenerationRequest request, GenerationSink sink);
  void PublishReadiness();
  void ReportDrafter();
  void OnWaitTick();
  void RecordFigures();
  void LogFigures();

  const ServeConfig& config_;
  ServerMetrics& metrics_;
  const size_t open_choices_max_;
  EventLoop loop_;
  CoordinatorCore core_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<LogSubscriber> verdicts_;
  std::map<SequenceId, GenerationSink> open_;
  EventLoop::TimerId timer_{};
  Instant timer_at_ = Instant::max();
  CoordinatorStats logged_;  // as of the last line of figures
  bool was_ready_ = false;
  bool had_drafter_ = false;
  bool draining_ = false;
  Instant not_ready_since_ = MonotonicNow();
  uint64_t wait_ticks_ = 0;
  int exit_code_ = kExitOk;

  std::atomic<uint64_t> next_sequence_{1};
  std::atomic<size_t> num_open_{0};
  mutable std::mutex readiness_mutex_;  // held for a copy only
  Status readiness_;
};

}  // namespace paceline
