#include "stage_worker/stage_shell.h"

#include <unistd.h>

#include <variant>

#include "common/base/exit_code.h"
#include "common/base/log.h"

namespace paceline {
namespace {

// More than a generation can have outstanding: one frame runs at a time, admissions and releases are small.
constexpr size_t kComputeTasksMax = 65536;
// How long a worker whose edge failed waits for the next generation before it leaves and is started anew.
constexpr Duration kNextGenerationTimeout = 10s;
// Longest wait for a proposal with --draft-wait-share above 1.
constexpr Duration kPatientWaitMax = 2s;

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

StageOptions MakeCoreOptions(const ServeConfig& config, const WorkerId& self, const StageSetup& setup) {
  StageOptions options;
  options.worker = self;
  options.stage = setup.stage;
  options.num_stages = config.pipeline_size;
  options.hidden_size = setup.source->config().hidden_size;
  options.vocab_size = setup.source->config().vocab_size;
  options.late.share = config.draft_wait_share;
  // More than a step is asked for by somebody who wants the drafts rather than the time: then the usual
  // ceiling would take back what the flag says.
  if (config.draft_wait_share > 1) options.late.ceiling = kPatientWaitMax;
  return options;
}

}  // namespace

StageShell::StageShell(const ServeConfig& config, WorkerRuntime& runtime, StageSetup setup)
    : config_(config), runtime_(runtime), setup_(std::move(setup)) {}

StageShell::~StageShell() = default;

Status StageShell::Start() {
  ASSIGN_OR_RETURN(executor_, CpuExecutor::Create(*setup_.source, setup_.executor, payloads_, dead_));
  core_ = std::make_unique<StageCore>(MakeCoreOptions(config_, runtime_.self(), setup_));
  core_->SetPhase("serving");
  compute_ = std::make_unique<TaskThread>("compute", kComputeTasksMax);

  ASSIGN_OR_RETURN(ListenAddresses addresses,
                   WorkerListenAddresses(config_, fmt::format("stage-{}", setup_.stage)));
  if (is_last()) {
    LogPublisher::Options options{.publish_endpoint = addresses.log_publish,
                                  .replay_endpoint = addresses.log_replay};
    LogPublisher::Callbacks callbacks{
        .on_replay_request = [this](uint64_t peer, const ReplayRequest& request) {
          Tell([&](StageCore& core, Instant now, stage::Outbox& out) {
            core.OnReplayRequest(ReplayPeer(peer), request, now, out);
          });
        }};
    ASSIGN_OR_RETURN(verdicts_,
                     LogPublisher::Bind(runtime_.fabric(), runtime_.loop(), options, std::move(callbacks)));
    addresses.log_publish = verdicts_->publish_endpoint();
    addresses.log_replay = verdicts_->replay_endpoint();
  } else {
    addresses.log_publish = addresses.log_replay = "";
  }
  if (is_first()) {
    addresses.tensor_listen = "";
  } else {
    TensorListenSpec spec;
    spec.address = addresses.tensor_listen;
    spec.limits.payload_bytes_max =
        uint64_t{setup_.executor.rows_max} * setup_.source->config().hidden_size * sizeof(float);
    ASSIGN_OR_RETURN(listener_, TensorListener::Listen(std::move(spec)));
    addresses.tensor_listen = listener_->address();
  }
  RETURN_IF_ERROR(runtime_.Connect(MakeHello(addresses), [this](WireMessage message) {
    Tell([&](StageCore& core, Instant now, stage::Outbox& out) { core.OnMessage(message, now, out); });
  }));
  ArmTimer();
  return OkStatus();
}

Hello StageShell::MakeHello(const ListenAddresses& addresses) const {
  Hello hello;
  hello.worker = runtime_.self();
  hello.fingerprint = setup_.fingerprint;
  hello.endpoints = {addresses.log_publish, addresses.log_replay, addresses.tensor_listen};
  hello.host = HostName();
  hello.pid = static_cast<uint32_t>(getpid());
  hello.kv_blocks = setup_.executor.kv_blocks;
  hello.kv_block_size = setup_.executor.kv_block_size;
  return hello;
}

template <typename Handler>
void StageShell::Tell(Handler handler) {
  stage::Outbox out;
  handler(*core_, MonotonicNow(), out);
  for (stage::Action& action : out) {
    std::visit([this](auto& item) { Carry(std::move(item)); }, action);
  }
  ArmTimer();
}

void StageShell::ArmTimer() {
  const Instant next = core_->NextDeadline();
  if (next == timer_at_) return;
  runtime_.loop().Cancel(timer_);
  timer_at_ = next;
  if (next == Instant::max()) return;
  timer_ = runtime_.loop().At(next, [this] {
    timer_at_ = Instant::max();
    Tell([](StageCore& core, Instant now, stage::Outbox& out) { core.OnTick(now, out); });
  });
}

void StageShell::Compute(std::function<void()> task) {
  if (!compute_->Post(std::move(task))) {
    runtime_.Leave(kExitInternal, InternalError("the compute thread's queue is full"));
  }
}

void StageShell::OnComputed(StatusOr<ExecutionResult> result) {
  if (!result.ok()) {
    runtime_.Leave(kExitDeviceLost,
                   Annotate(result.status(), fmt::format("stage {} computes", setup_.stage)));
    return;
  }
  Tell([&](StageCore& core, Instant now, stage::Outbox& out) {
    core.OnExecuted(*std::move(result), now, out);
  });
}

void StageShell::Carry(stage::SendControl&& action) { runtime_.Send(action.message); }

void StageShell::Carry(stage::Publish&& action) {
  if (const Status status = verdicts_->Publish(action.message); !status.ok()) {
    LogWarn("publish_failed", "log=verdicts reason=\"{}\" then=\"subscribers ask again\"", Message(status));
  }
}

void StageShell::Carry(stage::AnswerReplay&& action) {
  verdicts_->Answer(action.peer.value(), action.message);
}

void StageShell::Carry(stage::RequestReplay&& action) {
  if (proposals_ == nullptr) return;
  (void)proposals_->RequestReplay(action.request);  // not connected: the core's timer asks again
}

void StageShell::Carry(stage::Execute&& action) {
  Compute([this, work = std::make_shared<StageWork>(std::move(action.work))] {
    auto result = std::make_shared<StatusOr<ExecutionResult>>(executor_->Run(*work));
    runtime_.loop().Post([this, result] { OnComputed(std::move(*result)); });
  });
}

void StageShell::Carry(stage::ForwardFrame&& action) {
  std::shared_ptr<const AlignedBuffer> payload = payloads_.Get(action.payload);
  payloads_.Free(action.payload);
  const StepId step = action.header.step;
  // No edge: it failed, and the next generation drops this frame at the other end anyway.
  if (outbound_ == nullptr) return;
  if (!outbound_->Send({std::move(action.header), std::move(payload)})) {
    LogWarn("frame_dropped", "step={} then=\"waiting for the next generation\"", step);
  }
}

void StageShell::Carry(stage::FreePayload&& action) { payloads_.Free(action.payload); }

void StageShell::Carry(stage::AdmitSequence&& action) {
  Compute([this, admission = std::move(action.admission)] { executor_->Admit(admission); });
}

void StageShell::Carry(stage::ForgetSequence&& action) {
  Compute([this, key = action.key] { executor_->Forget(key); });
}

void StageShell::Carry(stage::RowsDied&& action) { dead_.Mark(action.step, action.key); }

void StageShell::Carry(stage::BuildEdges&& action) {
  const Reconfigure& config = action.config;
  inbound_.reset();
  outbound_.reset();
  payloads_.Clear();
  dead_.Clear();
  edges_generation_ = config.generation;
  // Stage 0 hears refusals early, so that dead steps are launched dead; a stage that is also the last knows
  // them.
  verdicts_heard_ = is_first() && !is_last() ? Follow(config.verdicts, "verdicts") : nullptr;
  edges_pending_ = 1 + (is_first() ? 0 : 1) + (is_last() ? 0 : 1);
  EventLoop& loop = runtime_.loop();
  const auto up = [this, &loop, generation = config.generation] {
    loop.Post([this, generation] { OnEdgeUp(generation); });
  };
  const auto failed = [this, &loop, generation = config.generation](const Status& status) {
    loop.Post([this, generation, status] { OnEdgeFailed(generation, status); });
  };
  const auto edge = [&](uint32_t from) {
    return EdgeId{config.generation.coordinator_nonce, config.generation.counter, from, from + 1};
  };
  if (!is_first()) {
    const auto frame = [this, &loop, generation = config.generation](FrameHeader header,
                                                                     AlignedBuffer payload) {
      auto rows = std::make_shared<AlignedBuffer>(std::move(payload));
      loop.Post([this, generation, header = std::move(header), rows] {
        if (generation != edges_generation_) return;
        const PayloadHandle handle = payloads_.Put(std::move(*rows));
        Tell([&](StageCore& core, Instant now, stage::Outbox& out) {
          core.OnFrame(header, handle, now, out);
        });
      });
    };
    inbound_ = std::make_unique<InboundEdge>(*listener_, edge(setup_.stage - 1),
                                             InboundEdge::Callbacks{up, frame, failed});
  }
  if (!is_last()) {
    outbound_ = std::make_unique<OutboundEdge>(config.next_stage_tensor_listen, edge(setup_.stage),
                                               OutboundEdge::Callbacks{up, failed});
  }
  // The compute thread is idle once this task runs: what was posted before it is done (P16).
  Compute([this, config] {
    const Status status = executor_->Reset(config.kv_blocks, config.kv_block_size);
    runtime_.loop().Post([this, status, generation = config.generation] {
      if (!status.ok())
        runtime_.Leave(kExitConfig, status);
      else
        OnEdgeUp(generation);
    });
  });
}

void StageShell::OnEdgeUp(const Generation& generation) {
  if (generation != edges_generation_ || --edges_pending_ > 0) return;
  LogInfo("edges_up", "generation={}", generation.counter);
  Tell([&](StageCore& core, Instant now, stage::Outbox& out) { core.OnEdgesReady(generation, now, out); });
}

void StageShell::OnEdgeFailed(const Generation& generation, const Status& status) {
  if (generation != edges_generation_) return;
  LogWarn("edge_lost", "generation={} reason=\"{}\" then=\"waiting for the next generation\"",
          generation.counter, Message(status));
  runtime_.loop().After(kNextGenerationTimeout, [this, generation, status] {
    if (generation == edges_generation_)
      runtime_.Leave(kExitPeersLost, Annotate(status, "no new generation came after"));
  });
}

void StageShell::Carry(stage::FollowProposals&& action) { proposals_ = Follow(action.source, "proposals"); }

std::unique_ptr<LogSubscriber> StageShell::Follow(const LogSource& source, std::string_view log) {
  if (source.incarnation.value() == 0) return nullptr;
  StatusOr<std::unique_ptr<LogSubscriber>> subscriber = LogSubscriber::Connect(
      runtime_.fabric(), runtime_.loop(), {.source = source}, {.on_message = [this](WireMessage message) {
        Tell([&](StageCore& core, Instant now, stage::Outbox& out) { core.OnMessage(message, now, out); });
      }});
  if (subscriber.ok()) return *std::move(subscriber);
  LogWarn("log_not_followed", "log={} reason=\"{}\"", log, Message(subscriber.status()));
  return nullptr;
}

void StageShell::Carry(stage::Leave&& action) { runtime_.Leave(action.exit_code, action.reason); }

}  // namespace paceline
