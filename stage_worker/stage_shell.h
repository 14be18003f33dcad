// StageShell: the thin shell of a stage worker: sockets, edges, compute thread and timers around a StageCore.
//
// Owned by main; everything but the executor runs on the runtime's loop. It carries out the core's outbox
// item by item and tells the core what happened; it decides nothing.
//
//   StageShell shell(config, runtime, std::move(setup));
//   RETURN_IF_ERROR(shell.Start());
//   return runtime.Run();
//
// Threads: loop (main), "compute", "edge-in", "edge-out". Failure: a failed executor ends the worker (70); a
// lost edge waits for the next generation and ends the worker (75) when none comes.
#pragma once

#include <memory>
#include <optional>

#include "common/actor/task_thread.h"
#include "common/cluster/worker_runtime.h"
#include "common/config/fabric_addresses.h"
#include "common/config/serve_config.h"
#include "common/model/weight_source.h"
#include "common/tensor_transport/tensor_channel.h"
#include "common/transport/published_log.h"
#include "stage_worker/core/stage_core.h"
#include "stage_worker/cpu_executor.h"
#include "stage_worker/edges.h"

namespace paceline {

struct StageSetup {
  uint32_t stage = 0;
  std::unique_ptr<WeightSource> source;
  CpuExecutorOptions executor;
  Fingerprint fingerprint;
};

class StageShell {
 public:
  StageShell(const ServeConfig& config, WorkerRuntime& runtime, StageSetup setup);
  ~StageShell();

  // Loads the stage, binds its listeners and begins to look for the coordinator.
  Status Start();

 private:
  template <typename Handler>
  void Tell(Handler handler);  // handler(core, now, outbox), then the outbox is carried out
  void ArmTimer();

  void Carry(stage::SendControl&& action);
  void Carry(stage::Publish&& action);
  void Carry(stage::AnswerReplay&& action);
  void Carry(stage::RequestReplay&& action);
  void Carry(stage::Execute&& action);
  void Carry(stage::ForwardFrame&& action);
  void Carry(stage::FreePayload&& action);
  void Carry(stage::AdmitSequence&& action);
  void Carry(stage::ForgetSequence&& action);
  void Carry(stage::RowsDied&& action);
  void Carry(stage::BuildEdges&& action);
  void Carry(stage::FollowProposals&& action);
  void Carry(stage::Leave&& action);

  std::unique_ptr<LogSubscriber> Follow(const LogSource& source, std::string_view log);
  void OnEdgeUp(const Generation& generation);
  void OnEdgeFailed(const Generation& generation, const Status& status);
  void OnComputed(StatusOr<ExecutionResult> result);
  void Compute(std::function<void()> task);
  Hello MakeHello(const ListenAddresses& addresses) const;
  bool is_first() const { return setup_.stage == 0; }
  bool is_last() const { return setup_.stage + 1 == config_.pipeline_size; }

  const ServeConfig& config_;
  WorkerRuntime& runtime_;
  StageSetup setup_;
  PayloadStore payloads_;
  DeadRows dead_;
  std::unique_ptr<CpuExecutor> executor_;
  std::unique_ptr<StageCore> core_;

  std::unique_ptr<TensorListener> listener_;
  std::unique_ptr<LogPublisher> verdicts_;         // last stage
  std::unique_ptr<LogSubscriber> verdicts_heard_;  // stage 0
  std::unique_ptr<LogSubscriber> proposals_;
  std::unique_ptr<InboundEdge> inbound_;
  std::unique_ptr<OutboundEdge> outbound_;
  Generation edges_generation_;
  uint32_t edges_pending_ = 0;

  EventLoop::TimerId timer_{};
  Instant timer_at_ = Instant::max();
  std::unique_ptr<TaskThread> compute_;  // last: its tasks use what is above
};

}  // namespace paceline
