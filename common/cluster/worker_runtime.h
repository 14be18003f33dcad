// WorkerRuntime: what a stage worker and a draft worker have in common: loop, signals, control link, leaving.
//
// Owned by main; the shell registers itself and runs on the runtime's loop (the main thread).
//
//   WorkerRuntime runtime(config, {Role::kStage, rank, RandomNonce()});
//   RETURN_IF_ERROR(runtime.Start());
//   runtime.Connect(MakeHello(), [&](WireMessage m, Lane) { core.OnMessage(m, ...); });
//   return runtime.Run();                       // until Leave: the exit code
//
// Hello is said at each link-up, since the coordinator behind the address may be another one. While there is
// no link, whom it waits for is logged every 5 s. Failure: no link within --distributed-timeout-seconds, or a
// lost one with --on-coordinator-loss exit, ends in 75; a coordinator of another protocol in 76; SIGTERM and
// SIGINT in 0.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/actor/event_loop.h"
#include "common/actor/signals.h"
#include "common/base/status.h"
#include "common/config/serve_config.h"
#include "common/protocol/membership.h"
#include "common/transport/control_channel.h"
#include "common/transport/fabric.h"

namespace paceline {

class WorkerRuntime {
 public:
  using OnMessage = std::function<void(WireMessage message)>;

  WorkerRuntime(const ServeConfig& config, WorkerId self);
  ~WorkerRuntime();
  WorkerRuntime(const WorkerRuntime&) = delete;
  WorkerRuntime& operator=(const WorkerRuntime&) = delete;

  // Sockets' context and signals; no thread may be running yet.
  Status Start();
  Status Connect(Hello hello, OnMessage on_message);
  // To the coordinator, control lane. What cannot be sent is dropped: the cores ask again.
  void Send(const WireMessage& message);
  // Ends Run with this code after the turn in progress; the first call wins.
  void Leave(int exit_code, const Status& reason);
  int Run();

  EventLoop& loop() { return loop_; }
  Fabric& fabric() { return *fabric_; }
  const WorkerId& self() const { return self_; }

 private:
  void OnLink(bool up);
  void OnWaitTick();

  const ServeConfig& config_;
  const WorkerId self_;
  EventLoop loop_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<SignalWatch> signals_;
  std::unique_ptr<ControlClient> control_;
  Hello hello_;
  bool link_up_ = false;
  bool was_linked_ = false;
  Instant waiting_since_{};
  bool leaving_ = false;
  int exit_code_ = 0;
};

// A number that no other process start has: getrandom.
uint64_t RandomNonce();

}  // namespace paceline
