#include "coordinator/coordinator_shell.h"

#include <variant>

#include "common/base/log.h"
#include "common/config/fabric_addresses.h"
#include "common/transport/endpoint.h"

namespace paceline {
namespace {

constexpr Duration kGaugeInterval = 1s;
constexpr Duration kFiguresInterval = 10s;
constexpr Duration kDrainPoll = 20ms;
constexpr Duration kWaitTick = 500ms;
constexpr uint64_t kTicksPerLine = 10;       // who is missing, every 5 s
constexpr Duration kGoodbyeTimeout = 100ms;  // one more turn of the loop lets the goodbyes leave

}  // namespace

CoordinatorShell::CoordinatorShell(const ServeConfig& config, const CoordinatorOptions& options,
                                   ServerMetrics& metrics)
    : config_(config),
      metrics_(metrics),
      open_choices_max_(size_t{config.max_queued_requests} + config.max_num_seqs),
      core_(options),
      readiness_(UnavailableError("starting")) {}

CoordinatorShell::~CoordinatorShell() = default;

Status CoordinatorShell::Start() {
  ASSIGN_OR_RETURN(fabric_, Fabric::Create());
  if (!config_.runtime_dir.empty()) RETURN_IF_ERROR(PrepareRuntimeDir(config_.runtime_dir));
  ControlServer::Callbacks callbacks{
      .on_message =
          [this](const WorkerId& from, WireMessage message, Lane) {
            Tell([&](CoordinatorCore& core, Instant now, coord::Outbox& out) {
              core.OnMessage(from, message, now, out);
            });
          },
      .on_peer_dropped =
          [this](const WorkerId& who, const Status& why) {
            Tell([&](CoordinatorCore& core, Instant now, coord::Outbox& out) {
              core.OnWorkerLost(who, Message(why), now, out);
            });
          },
  };
  ASSIGN_OR_RETURN(control_, ControlServer::Bind(*fabric_, loop_, {.endpoint = ControlEndpoint(config_)},
                                                 std::move(callbacks)));
  LogInfo("control_listening", "endpoint={}", control_->endpoint());
  loop_.Every(kGaugeInterval, [this] { RecordFigures(); });
  loop_.Every(kWaitTick, [this] { OnWaitTick(); });
  if (config_.log_stats) loop_.Every(kFiguresInterval, [this] { LogFigures(); });
  Tell([](CoordinatorCore& core, Instant now, coord::Outbox& out) { core.OnTick(now, out); });
  return OkStatus();
}

template <typename Handler>
void CoordinatorShell::Tell(Handler handler) {
  coord::Outbox out;
  handler(core_, MonotonicNow(), out);
  for (coord::Action& action : out) {
    std::visit([this](auto& item) { Carry(std::move(item)); }, action);
  }
  PublishReadiness();
  ArmTimer();
}

void CoordinatorShell::ArmTimer() {
  const Instant next = core_.NextDeadline();
  if (next == timer_at_) return;
  loop_.Cancel(timer_);
  timer_at_ = next;
  if (next == Instant::max()) return;
  timer_ = loop_.At(next, [this] {
    timer_at_ = Instant::max();
    Tell([](CoordinatorCore& core, Instant now, coord::Outbox& out) { core.OnTick(now, out); });
  });
}

StatusOr<SequenceId> CoordinatorShell::Submit(GenerationRequest request, GenerationSink sink) {
  RETURN_IF_ERROR(Readiness());
  if (num_open_.fetch_add(1) >= open_choices_max_) {
    num_open_.fetch_sub(1);
    return ResourceExhaustedError("{} requests are running or queued (--max-queued-requests)",
                                  open_choices_max_);
  }
  const SequenceId sequence(next_sequence_.fetch_add(1));
  auto owned = std::make_shared<GenerationRequest>(std::move(request));
  if (!loop_.Post([this, sequence, owned, sink = std::move(sink)] {
        OnSubmitted(sequence, std::move(*owned), sink);
      })) {
    num_open_.fetch_sub(1);
    return UnavailableError("the engine is stopping");
  }
  return sequence;
}

void CoordinatorShell::OnSubmitted(SequenceId sequence, GenerationRequest request, GenerationSink sink) {
  open_.emplace(sequence, std::move(sink));
  Tell([&](CoordinatorCore& core, Instant now, coord::Outbox& out) {
    const Status status = core.OnSubmit(sequence, std::move(request), now, out);
    if (status.ok()) return;
    GenerationDelta refused;
    refused.finish = FinishReason::kError;
    refused.error = status;
    out.push_back(coord::Deliver{sequence, std::move(refused)});
  });
  RecordFigures();
}

void CoordinatorShell::Cancel(SequenceId sequence) {
  loop_.Post([this, sequence] {
    Tell([&](CoordinatorCore& core, Instant now, coord::Outbox& out) { core.OnCancel(sequence, now, out); });
  });
}

Status CoordinatorShell::Readiness() const {
  std::lock_guard lock(readiness_mutex_);
  return readiness_;
}

void CoordinatorShell::PublishReadiness() {
  Status status = core_.Readiness();
  if (status.ok() != was_ready_) {
    was_ready_ = status.ok();
    if (was_ready_) {
      LogInfo("ready", "generation={} drafter={}", core_.generation().counter,
              core_.drafter_ready() ? "yes" : "no");
    } else {
      LogWarn("not_ready", "reason=\"{}\"", Message(status));
      not_ready_since_ = MonotonicNow();
    }
  }
  ReportDrafter();
  std::lock_guard lock(readiness_mutex_);
  readiness_ = std::move(status);
}

void CoordinatorShell::ReportDrafter() {
  if (core_.drafter_ready() == had_drafter_) return;
  had_drafter_ = !had_drafter_;
  if (had_drafter_)
    LogInfo("drafter_ready", "generation={}", core_.generation().counter);
  else
    LogWarn("drafter_lost", "then=\"requests go on without drafts\"");
}

// Names whom the group waits for, and gives up after --distributed-timeout-seconds.
void CoordinatorShell::OnWaitTick() {
  const Status status = Readiness();
  if (status.ok() || draining_) return;
  const double waited = ToSeconds(MonotonicNow() - not_ready_since_);
  if (waited > config_.group_timeout_seconds) {
    draining_ = true;
    exit_code_ = kExitPeersLost;
    LogError("group_not_formed", "seconds={:.0f} reason=\"{}\" flag=--distributed-timeout-seconds", waited,
             Message(status));
    Shutdown(Message(status));
    loop_.After(kGoodbyeTimeout, [this] { loop_.Stop(); });
  } else if (++wait_ticks_ % kTicksPerLine == 0) {
    LogInfo("waiting_for_group", "seconds={:.0f} reason=\"{}\"", waited, Message(status));
  }
}

void CoordinatorShell::Carry(coord::Send&& action) {
  const Status status =
      control_->Send(action.to, action.message, action.urgent ? Lane::kUrgent : Lane::kControl);
  // Not reachable is no error here: plans are asked for again, a lost worker is noticed by its silence.
  if (!status.ok()) LogDebug("control_send_dropped", "reason=\"{}\"", Message(status));
}

void CoordinatorShell::Carry(coord::Deliver&& action) {
  const auto it = open_.find(action.sequence);
  if (it == open_.end()) return;
  GenerationDelta& delta = action.delta;
  if (delta.finish == FinishReason::kNone) {
    it->second(std::move(delta));
    return;
  }
  RecordFigures();  // before the client can ask
  if (delta.finish == FinishReason::kCancelled) {
    metrics_.Cancelled(!delta.was_running     ? CancelPhase::kQueue
                       : delta.num_steps == 0 ? CancelPhase::kPrefill
                                              : CancelPhase::kDecode);
  }
  const GenerationSink sink = std::move(it->second);
  open_.erase(it);
  num_open_.fetch_sub(1);
  sink(std::move(delta));
}

void CoordinatorShell::Carry(coord::RequestReplay&& action) {
  if (verdicts_ != nullptr)
    (void)verdicts_->RequestReplay(action.request);  // not connected: the core asks again
}

void CoordinatorShell::Carry(coord::FollowVerdicts&& action) {
  verdicts_.reset();
  if (action.source.incarnation.value() == 0) return;
  StatusOr<std::unique_ptr<LogSubscriber>> subscriber = LogSubscriber::Connect(
      *fabric_, loop_, {.source = action.source}, {.on_message = [this](WireMessage message) {
        Tell([&](CoordinatorCore& core, Instant now, coord::Outbox& out) {
          core.OnLogMessage(message, now, out);
        });
      }});
  if (!subscriber.ok()) {
    LogError("verdicts_not_followed", "reason=\"{}\"", Message(subscriber.status()));
    return;
  }
  verdicts_ = *std::move(subscriber);
}

void CoordinatorShell::Drain(Instant deadline, std::function<void()> done) {
  draining_ = true;
  core_.Drain();
  PublishReadiness();
  if (core_.idle() || MonotonicNow() >= deadline) {
    done();
    return;
  }
  loop_.After(kDrainPoll, [this, deadline, done = std::move(done)] { Drain(deadline, done); });
}

void CoordinatorShell::Shutdown(std::string_view reason) {
  Tell([&](CoordinatorCore& core, Instant now, coord::Outbox& out) { core.Shutdown(reason, now, out); });
}

void CoordinatorShell::RecordFigures() {
  CoordinatorStats stats = core_.stats();
  metrics_.SetQueue(static_cast<uint32_t>(stats.requests_running),
                    static_cast<uint32_t>(stats.requests_waiting));
  if (stats.kv_blocks_total > 0) {
    metrics_.SetKvUsage(1.0 - static_cast<double>(stats.kv_blocks_free) / stats.kv_blocks_total);
    metrics_.SetCacheConfig(config_.block_size, stats.kv_blocks_total);
  }
  EngineTotals totals;
  totals.preemptions = stats.preemptions;
  totals.generation_tokens = stats.generation_tokens;
  totals.drafts = stats.drafts;
  totals.draft_tokens = stats.draft_tokens;
  totals.accepted_tokens = stats.accepted_tokens;
  totals.accepted_per_position = std::move(stats.accepted_per_position);
  metrics_.AdvanceTo(totals);
}

void CoordinatorShell::LogFigures() {
  const CoordinatorStats stats = core_.stats();
  const double seconds = ToSeconds(kFiguresInterval);
  const uint64_t tokens = stats.generation_tokens - logged_.generation_tokens;
  const uint64_t drafts = stats.drafts - logged_.drafts;
  const uint64_t accepted = stats.accepted_tokens - logged_.accepted_tokens;
  const uint64_t drafted = stats.draft_tokens - logged_.draft_tokens;
  logged_ = stats;
  if (tokens == 0 && stats.requests_running + stats.requests_waiting == 0) return;
  LogInfo("figures",
          "running={} waiting={} kv_used={:.0f}% tokens_per_s={:.1f} mean_accepted_len={:.2f} accepted={}/{} "
          "without_proposal={}",
          stats.requests_running, stats.requests_waiting,
          stats.kv_blocks_total > 0 ? 100.0 - 100.0 * stats.kv_blocks_free / stats.kv_blocks_total : 0.0,
          static_cast<double>(tokens) / seconds,
          drafts > 0 ? 1.0 + static_cast<double>(accepted) / static_cast<double>(drafts) : 1.0, accepted,
          drafted, stats.launched_without_proposal);
}

}  // namespace paceline
