#include "common/cluster/worker_runtime.h"

#include <sys/random.h>

#include <csignal>

#include "common/base/check.h"
#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/config/fabric_addresses.h"

namespace paceline {
namespace {

// A coordinator that restarts within this time is not lost; a killed one is noticed by its closed socket at
// once.
constexpr Duration kLossGrace = 1s;
constexpr Duration kWaitTick = 500ms;
constexpr int kTicksPerLine = 10;  // a line every 5 s

}  // namespace

uint64_t RandomNonce() {
  uint64_t nonce = 0;
  CHECK_EQ(getrandom(&nonce, sizeof nonce, 0), static_cast<ssize_t>(sizeof nonce));
  return nonce | 1;  // never 0
}

WorkerRuntime::WorkerRuntime(const ServeConfig& config, WorkerId self) : config_(config), self_(self) {}

WorkerRuntime::~WorkerRuntime() = default;

Status WorkerRuntime::Start() {
  BlockSignals({SIGTERM, SIGINT});
  ASSIGN_OR_RETURN(
      signals_, SignalWatch::Create(loop_, {SIGTERM, SIGINT}, [this](int) { Leave(kExitOk, OkStatus()); }));
  ASSIGN_OR_RETURN(fabric_, Fabric::Create());
  return OkStatus();
}

Status WorkerRuntime::Connect(Hello hello, OnMessage on_message) {
  hello_ = std::move(hello);
  ControlClient::Options options{.self = self_, .endpoint = ControlEndpoint(config_)};
  ControlClient::Callbacks callbacks{
      .on_message = [handler = std::move(on_message)](WireMessage message,
                                                      Lane) { handler(std::move(message)); },
      .on_link = [this](bool up) { OnLink(up); },
      .on_incompatible = [this](const Status& why) { Leave(kExitMismatch, why); },
  };
  ASSIGN_OR_RETURN(control_,
                   ControlClient::Connect(*fabric_, loop_, std::move(options), std::move(callbacks)));
  waiting_since_ = MonotonicNow();
  loop_.Every(kWaitTick, [this, tick = 0]() mutable {
    if (!link_up_ && ++tick % kTicksPerLine == 0) {
      LogInfo("waiting_for_coordinator", "endpoint={} seconds={:.0f}", ControlEndpoint(config_),
              ToSeconds(MonotonicNow() - waiting_since_));
    }
    OnWaitTick();
  });
  return OkStatus();
}

void WorkerRuntime::OnLink(bool up) {
  if (up == link_up_) return;
  link_up_ = up;
  waiting_since_ = MonotonicNow();
  if (up) {
    was_linked_ = true;
    LogInfo("coordinator_link_up", "endpoint={}", ControlEndpoint(config_));
    Send(hello_);
  } else {
    LogWarn("coordinator_link_down", "endpoint={} then={}", ControlEndpoint(config_),
            config_.exit_on_coordinator_loss ? "exit" : "wait");
  }
}

void WorkerRuntime::OnWaitTick() {
  if (link_up_) return;
  const Duration waited = MonotonicNow() - waiting_since_;
  if (was_linked_ && config_.exit_on_coordinator_loss && waited > kLossGrace) {
    Leave(kExitPeersLost, UnavailableError("the coordinator at {} is gone", ControlEndpoint(config_)));
  } else if (!was_linked_ && ToSeconds(waited) > config_.group_timeout_seconds) {
    Leave(kExitPeersLost,
          DeadlineExceededError("no coordinator at {} within {} s (--distributed-timeout-seconds)",
                                ControlEndpoint(config_), config_.group_timeout_seconds));
  }
}

void WorkerRuntime::Send(const WireMessage& message) {
  if (control_ == nullptr) return;
  if (const Status status = control_->Send(message, Lane::kControl); !status.ok()) {
    LogDebug("control_send_dropped", "reason=\"{}\"", Message(status));
  }
}

void WorkerRuntime::Leave(int exit_code, const Status& reason) {
  if (leaving_) return;
  leaving_ = true;
  exit_code_ = exit_code;
  if (exit_code == kExitOk) {
    LogInfo("leaving", "{}", Message(reason));
  } else {
    LogError("leaving", "exit_code={} reason=\"{}\"", exit_code, Message(reason));
  }
  loop_.Stop();
}

int WorkerRuntime::Run() {
  if (!leaving_) loop_.Run();
  return exit_code_;
}

}  // namespace paceline
