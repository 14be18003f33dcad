#include "draft_worker/draft_shell.h"

#include <unistd.h>

#include <variant>

#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/config/fabric_addresses.h"

namespace paceline {
namespace {

constexpr size_t kComputeTasksMax = 65536;

DraftOptions MakeCoreOptions(const WorkerId& self) {
  DraftOptions options;
  options.worker = self;
  return options;
}

}  // namespace

DraftShell::DraftShell(const ServeConfig& config, WorkerRuntime& runtime, Fingerprint fingerprint,
                       std::unique_ptr<Proposer> proposer)
    : config_(config),
      runtime_(runtime),
      fingerprint_(std::move(fingerprint)),
      proposer_(std::move(proposer)),
      core_(MakeCoreOptions(runtime.self())),
      compute_(std::make_unique<TaskThread>("draft", kComputeTasksMax)) {}

DraftShell::~DraftShell() = default;

Status DraftShell::Start() {
  ASSIGN_OR_RETURN(const ListenAddresses addresses, WorkerListenAddresses(config_, "draft"));
  LogPublisher::Options options{.publish_endpoint = addresses.log_publish,
                                .replay_endpoint = addresses.log_replay};
  LogPublisher::Callbacks callbacks{.on_replay_request = [this](uint64_t peer, const ReplayRequest& request) {
    Tell([&](DraftCore& core, Instant now, draft::Outbox& out) {
      core.OnReplayRequest(draft::ReplayPeer(peer), request, now, out);
    });
  }};
  ASSIGN_OR_RETURN(proposals_,
                   LogPublisher::Bind(runtime_.fabric(), runtime_.loop(), options, std::move(callbacks)));

  Hello hello;
  hello.worker = runtime_.self();
  hello.fingerprint = fingerprint_;
  hello.endpoints = {proposals_->publish_endpoint(), proposals_->replay_endpoint(), ""};
  hello.pid = static_cast<uint32_t>(getpid());
  RETURN_IF_ERROR(runtime_.Connect(std::move(hello), [this](WireMessage message) {
    Tell([&](DraftCore& core, Instant now, draft::Outbox& out) { core.OnMessage(message, now, out); });
  }));
  ArmTimer();
  return OkStatus();
}

template <typename Handler>
void DraftShell::Tell(Handler handler) {
  draft::Outbox out;
  handler(core_, MonotonicNow(), out);
  for (draft::Action& action : out) {
    std::visit([this](auto& item) { Carry(std::move(item)); }, action);
  }
  ArmTimer();
}

void DraftShell::ArmTimer() {
  const Instant next = core_.NextDeadline();
  if (next == timer_at_) return;
  runtime_.loop().Cancel(timer_);
  timer_at_ = next;
  if (next == Instant::max()) return;
  timer_ = runtime_.loop().At(next, [this] {
    timer_at_ = Instant::max();
    Tell([](DraftCore& core, Instant now, draft::Outbox& out) { core.OnTick(now, out); });
  });
}

void DraftShell::Compute(std::function<void()> task) {
  if (!compute_->Post(std::move(task))) {
    runtime_.Leave(kExitInternal, InternalError("the draft thread's queue is full"));
  }
}

void DraftShell::Carry(draft::SendControl&& action) { runtime_.Send(action.message); }

void DraftShell::Carry(draft::Publish&& action) {
  if (const Status status = proposals_->Publish(action.message); !status.ok()) {
    LogWarn("publish_failed", "log=proposals reason=\"{}\" then=\"stages ask again\"", Message(status));
  }
}

void DraftShell::Carry(draft::AnswerReplay&& action) {
  proposals_->Answer(action.peer.value(), action.message);
}

void DraftShell::Carry(draft::RequestReplay&& action) {
  if (verdicts_ == nullptr) return;
  (void)verdicts_->RequestReplay(action.request);  // not connected: the core's timer asks again
}

void DraftShell::Carry(draft::Propose&& action) {
  Compute([this, action = std::move(action)] {
    const Instant begin = MonotonicNow();
    std::vector<std::vector<TokenId>> ids = proposer_->Propose(action.items);
    const auto micros = static_cast<uint32_t>(ToMicros(MonotonicNow() - begin));
    runtime_.loop().Post([this, step = action.step, ids = std::move(ids), micros] {
      Tell([&](DraftCore& core, Instant now, draft::Outbox& out) {
        core.OnProposed(step, ids, micros, now, out);
      });
    });
  });
}

void DraftShell::Carry(draft::AdmitSequence&& action) {
  Compute([this, admission = std::move(action.admission)] { proposer_->Admit(admission); });
}

void DraftShell::Carry(draft::ReleaseSequence&& action) {
  Compute([this, key = action.key] { proposer_->Release(key); });
}

void DraftShell::Carry(draft::ResetProposer&&) {
  Compute([this] { proposer_->Reset(); });
}

void DraftShell::Carry(draft::FollowVerdicts&& action) {
  verdicts_.reset();
  if (action.source.incarnation.value() == 0) return;
  StatusOr<std::unique_ptr<LogSubscriber>> subscriber = LogSubscriber::Connect(
      runtime_.fabric(), runtime_.loop(), {.source = action.source},
      {.on_message = [this](WireMessage message) {
        Tell([&](DraftCore& core, Instant now, draft::Outbox& out) { core.OnMessage(message, now, out); });
      }});
  if (!subscriber.ok()) {
    runtime_.Leave(kExitPeersLost, Annotate(subscriber.status(), "verdicts cannot be followed"));
    return;
  }
  verdicts_ = *std::move(subscriber);
  Tell([&](DraftCore& core, Instant now, draft::Outbox& out) {
    core.OnEdgesReady(action.generation, now, out);
  });
}

void DraftShell::Carry(draft::Leave&& action) { runtime_.Leave(action.exit_code, action.reason); }

}  // namespace paceline
