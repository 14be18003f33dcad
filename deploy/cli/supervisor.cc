#include "deploy/cli/supervisor.h"

#include <algorithm>
#include <csignal>

#include "common/base/exit_code.h"
#include "common/base/log.h"

namespace paceline {
namespace {

constexpr size_t kDeathsMax = 5;
constexpr Duration kDeathWindow = 60s;
constexpr Duration kPauseMin = 100ms;
constexpr Duration kPauseMax = 30s;
constexpr Duration kTermGrace = 2s;  // from SIGTERM to SIGKILL

}  // namespace

Supervisor::Supervisor(std::vector<SupervisedProgram> programs, Duration drain_max) : drain_max_(drain_max) {
  for (SupervisedProgram& program : programs) {
    members_.push_back(std::make_unique<Member>());
    members_.back()->program = std::move(program);
  }
}

int Supervisor::Run() {
  BlockSignals({SIGTERM, SIGINT});
  StatusOr<std::unique_ptr<SignalWatch>> signals =
      SignalWatch::Create(loop_, {SIGTERM, SIGINT}, [this](int signal) { OnSignal(signal); });
  if (!signals.ok()) {
    LogError("start_refused", "reason=\"{}\"", Message(signals.status()));
    return kExitInternal;
  }
  for (auto& member : members_) {
    if (const Status status = StartMember(*member); !status.ok()) {
      StopAll(kExitConfig, Message(status));
      break;
    }
  }
  FinishIfAllEnded();
  if (!loop_.stopped()) loop_.Run();
  return exit_code_;
}

Status Supervisor::StartMember(Member& member) {
  ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(member.program.argv));
  LogInfo("process_started", "name={} pid={}", member.program.name, child.pid());
  member.child.emplace(std::move(child));
  loop_.AddFd(member.child->exit_fd(), [this, &member] { OnExit(member); });
  return OkStatus();
}

void Supervisor::OnExit(Member& member) {
  loop_.RemoveFd(member.child->exit_fd());
  const ExitState state = member.child->Reap();
  member.child.reset();
  if (stopping_) {
    if (member.program.essential && exit_code_ == kExitOk && state.exit_code > 0)
      exit_code_ = state.exit_code;
    LogInfo("process_ended", "name={} how=\"{}\"", member.program.name, state.Describe());
    // The coordinator has drained: nobody is left to work for.
    if (member.program.essential) StopAll(exit_code_, "the coordinator has ended");
    FinishIfAllEnded();
    return;
  }
  LogError("process_died", "name={} how=\"{}\"", member.program.name, state.Describe());
  if (member.program.essential) {
    StopAll(state.exit_code > 0 ? state.exit_code : static_cast<int>(kExitPeersLost), "the coordinator died");
  } else {
    OnWorkerDeath(member, state);
  }
  FinishIfAllEnded();
}

void Supervisor::OnWorkerDeath(Member& member, const ExitState& state) {
  if (state.exit_code == kExitConfig || state.exit_code == kExitMismatch) {
    StopAll(state.exit_code, fmt::format("{} refused to start; its log says why", member.program.name));
    return;
  }
  const Instant now = MonotonicNow();
  member.deaths.push_back(now);
  while (member.deaths.front() < now - kDeathWindow) member.deaths.pop_front();
  if (member.deaths.size() > kDeathsMax) {
    StopAll(kExitPeersLost, fmt::format("{} died {} times within {:.0f} s, last by {}", member.program.name,
                                        member.deaths.size(), ToSeconds(kDeathWindow), state.Describe()));
    return;
  }
  if (member.deaths.size() == 1) member.pause = kPauseMin;
  LogInfo("process_restarts", "name={} in_ms={}", member.program.name, ToMicros(member.pause) / 1000);
  loop_.After(member.pause, [this, &member] {
    if (stopping_) return;
    if (const Status status = StartMember(member); !status.ok()) StopAll(kExitPeersLost, Message(status));
  });
  member.pause = std::min(member.pause * 2, kPauseMax);
}

void Supervisor::OnSignal(int signal) {
  ++signals_seen_;
  LogInfo("signal", "number={} then={}", signal, signals_seen_ == 1 ? "drain" : "stop");
  if (signals_seen_ > 1) {
    StopAll(exit_code_, "second signal");
    return;
  }
  stopping_ = true;
  bool draining = false;
  for (const auto& member : members_) {
    if (!member->program.essential || !member->child.has_value()) continue;
    member->child->Signal(SIGTERM);
    draining = true;
  }
  if (!draining) {
    StopAll(exit_code_, "nothing to drain");
    FinishIfAllEnded();
    return;
  }
  loop_.After(drain_max_ + kTermGrace, [this] { StopAll(exit_code_, "the drain took too long"); });
}

void Supervisor::StopAll(int exit_code, std::string_view reason) {
  if (exit_code != kExitOk && exit_code_ == kExitOk) {
    exit_code_ = exit_code;
    LogError("server_stops", "exit_code={} reason=\"{}\"", exit_code, reason);
  }
  stopping_ = true;
  for (const auto& member : members_) {
    if (member->child.has_value()) member->child->Signal(SIGTERM);
  }
  loop_.After(kTermGrace, [this] {
    for (const auto& member : members_) {
      if (member->child.has_value()) member->child->Signal(SIGKILL);
    }
  });
}

void Supervisor::FinishIfAllEnded() {
  if (!stopping_) return;
  const bool all =
      std::none_of(members_.begin(), members_.end(), [](const auto& m) { return m->child.has_value(); });
  if (all) loop_.Stop();
}

}  // namespace paceline
