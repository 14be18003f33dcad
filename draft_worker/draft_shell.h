// DraftShell: the thin shell of the draft worker: sockets, compute thread and timers around a DraftCore.
//
// Owned by main; everything but the proposer runs on the runtime's loop. It carries out the core's outbox
// item by item and tells the core what happened; it decides nothing.
//
// Threads: loop (main), "draft". Failure: nothing here can make a token wrong; a draft worker that leaves
// only turns speculation off.
#pragma once

#include <memory>

#include "common/actor/task_thread.h"
#include "common/cluster/worker_runtime.h"
#include "common/config/serve_config.h"
#include "common/transport/published_log.h"
#include "draft_worker/core/draft_core.h"
#include "draft_worker/proposer.h"

namespace paceline {

class DraftShell {
 public:
  DraftShell(const ServeConfig& config, WorkerRuntime& runtime, Fingerprint fingerprint,
             std::unique_ptr<Proposer> proposer);
  ~DraftShell();

  // Binds the proposal log and begins to look for the coordinator.
  Status Start();

 private:
  template <typename Handler>
  void Tell(Handler handler);  // handler(core, now, outbox), then the outbox is carried out
  void ArmTimer();
  void Compute(std::function<void()> task);

  void Carry(draft::SendControl&& action);
  void Carry(draft::Publish&& action);
  void Carry(draft::AnswerReplay&& action);
  void Carry(draft::RequestReplay&& action);
  void Carry(draft::Propose&& action);
  void Carry(draft::AdmitSequence&& action);
  void Carry(draft::ReleaseSequence&& action);
  void Carry(draft::ResetProposer&& action);
  void Carry(draft::FollowVerdicts&& action);
  void Carry(draft::Leave&& action);

  const ServeConfig& config_;
  WorkerRuntime& runtime_;
  const Fingerprint fingerprint_;
  std::unique_ptr<Proposer> proposer_;
  DraftCore core_;
  std::unique_ptr<LogPublisher> proposals_;
  std::unique_ptr<LogSubscriber> verdicts_;
  EventLoop::TimerId timer_{};
  Instant timer_at_ = Instant::max();
  std::unique_ptr<TaskThread> compute_;  // last: its tasks use what is above
};

}  // namespace paceline
