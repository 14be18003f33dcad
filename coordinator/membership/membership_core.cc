#include "coordinator/membership/membership_core.h"

#include <algorithm>
#include <utility>

namespace paceline {
namespace {

constexpr Duration kResendReconfigure = 1s;

std::string Name(const Hello& hello) {
  if (hello.worker.role == Role::kDrafter)
    return fmt::format("draft worker (host {}, pid {})", hello.host, hello.pid);
  return fmt::format("stage {} (host {}, pid {})", hello.worker.rank, hello.host, hello.pid);
}

}  // namespace

void MembershipCore::OnMessage(const WorkerId& from, const WireMessage& message, Instant now,
                               coord::Outbox& out) {
  if (const auto* hello = std::get_if<Hello>(&message)) return OnHello(from, *hello, now, out);
  Member* member = Find(from);
  if (member == nullptr) return;  // refused, lost or of an earlier life
  member->heard_at = now;
  if (const auto* beat = std::get_if<Heartbeat>(&message)) {
    if (beat->steps_done != member->beat.steps_done || beat->step_running != member->beat.step_running) {
      member->progressed_at = now;
    }
    member->beat = *beat;
  } else if (const auto* done = std::get_if<ReconfigureDone>(&message)) {
    if (done->generation == generation_) member->done = true;
  } else if (const auto* seen = std::get_if<ProbeSeen>(&message)) {
    if (seen->generation != generation_) return;
    if (seen->incarnation == VerdictSource().incarnation) member->sees_verdicts = true;
    if (seen->incarnation == ProposalSource().incarnation) member->sees_proposals = true;
  } else if (const auto* bye = std::get_if<Goodbye>(&message)) {
    return OnWorkerLost(from, bye->reason.empty() ? "it left" : bye->reason, now, out);
  }
  Advance(now, out);
}

void MembershipCore::OnProbe(const Probe& probe, Instant now, coord::Outbox& out) {
  if (probe.generation != generation_ || probe.incarnation != VerdictSource().incarnation) return;
  own_probe_seen_ = true;
  Advance(now, out);
}

// ---------------------------------------------------------------- joining

Status MembershipCore::CheckHello(const Hello& hello) const {
  RETURN_IF_ERROR(CompareFingerprints(pinned_, hello.fingerprint, hello.worker.role));
  if (hello.worker.role != Role::kStage) return OkStatus();
  if (hello.worker.rank >= options_.num_stages) {
    return FailedPreconditionError(
        "rank: this cluster has stages 0 to {}, the worker says {}; give it a rank in that range",
        options_.num_stages - 1, hello.worker.rank);
  }
  for (const auto& [rank, member] : stages_) {
    if (rank == hello.worker.rank || member.hello.kv_block_size == hello.kv_block_size) continue;
    return FailedPreconditionError("kv_block_size: stage {} has {}, the worker has {}; use one --block-size",
                                   rank, member.hello.kv_block_size, hello.kv_block_size);
  }
  return OkStatus();
}

void MembershipCore::Pin(const Fingerprint& fingerprint) {
  if (pinned_.numerics_class.empty()) pinned_.numerics_class = fingerprint.numerics_class;
  if (pinned_.dtype.empty()) pinned_.dtype = fingerprint.dtype;
  if (pinned_.model_digest.empty()) pinned_.model_digest = fingerprint.model_digest;
  if (pinned_.layers_per_stage.empty()) pinned_.layers_per_stage = fingerprint.layers_per_stage;
}

void MembershipCore::OnHello(const WorkerId& from, const Hello& hello, Instant now, coord::Outbox& out) {
  if (Status status = CheckHello(hello); !status.ok()) {
    out.emplace_back(coord::Send{from, Refusal{std::string(Message(status))}, false});
    return;
  }
  const uint32_t rank = hello.worker.rank;
  if (Member* known = Find(from)) {  // the connection was lost and came back
    known->heard_at = now;
    return;
  }
  Member member;
  member.hello = hello;
  member.heard_at = member.progressed_at = now;
  if (hello.worker.role == Role::kDrafter) {
    if (drafter_) LoseDrafter("it was started again", out);
    drafter_ = std::move(member);
    if (serving()) StartDrafterJoin(now, out);
    return;
  }
  if (stages_.contains(rank)) LoseStage(rank, "it was started again", out);
  Pin(hello.fingerprint);
  stages_[rank] = std::move(member);
  if (state_ == State::kGathering && stages_complete()) StartGeneration(now, out);
}

LogSource MembershipCore::VerdictSource() const {
  const auto last = stages_.find(options_.num_stages - 1);
  if (last == stages_.end()) return {};
  const Hello& hello = last->second.hello;
  return {Incarnation(hello.worker.boot_nonce), hello.endpoints.log_publish, hello.endpoints.log_replay};
}

LogSource MembershipCore::ProposalSource() const {
  if (!drafter_ || !drafter_->joining) return {};
  const Hello& hello = drafter_->hello;
  return {Incarnation(hello.worker.boot_nonce), hello.endpoints.log_publish, hello.endpoints.log_replay};
}

void MembershipCore::StartGeneration(Instant now, coord::Outbox& out) {
  state_ = State::kReconfiguring;
  generation_ = {options_.boot_nonce, generation_.counter + 1};  // P16
  own_probe_seen_ = false;
  kv_blocks_ = options_.kv_blocks_max;
  for (auto& [rank, member] : stages_) {
    member.done = member.sees_verdicts = member.sees_proposals = false;
    kv_blocks_ = kv_blocks_ == 0 ? member.hello.kv_blocks : std::min(kv_blocks_, member.hello.kv_blocks);
    kv_block_size_ = std::max(member.hello.kv_block_size, 1u);
  }
  if (drafter_) {
    drafter_->done = drafter_->sees_verdicts = drafter_->ready = drafter_->joining = false;
  }
  for (const auto& [rank, member] : stages_) {
    out.emplace_back(coord::Send{member.hello.worker, ConfigFor(rank), false});
  }
  out.emplace_back(coord::FollowVerdicts{VerdictSource()});
  resend_at_ = now + kResendReconfigure;
}

Reconfigure MembershipCore::ConfigFor(uint32_t stage) const {
  Reconfigure config;
  config.generation = generation_;
  config.num_stages = options_.num_stages;
  config.kv_blocks = kv_blocks_;
  config.kv_block_size = kv_block_size_;
  config.num_slots = num_slots_;
  config.launch_window = options_.launch_window;
  config.rows_max = options_.max_num_batched_tokens;
  config.draft_len_max = options_.num_speculative_tokens;
  const auto next = stages_.find(stage + 1);
  if (next != stages_.end()) config.next_stage_tensor_listen = next->second.hello.endpoints.tensor_listen;
  config.verdicts = VerdictSource();
  return config;  // no proposals yet: a drafter joins once the stages serve
}

void MembershipCore::StartDrafterJoin(Instant now, coord::Outbox& out) {
  drafter_->joining = true;
  drafter_->done = drafter_->sees_verdicts = drafter_->ready = false;
  for (auto& [rank, member] : stages_) member.sees_proposals = false;
  Reconfigure config = ConfigFor(options_.num_stages);
  config.proposals = ProposalSource();
  out.emplace_back(coord::Send{drafter_->hello.worker, config, false});
  SendToStages(DrafterChange{generation_, ProposalSource()}, out);
  resend_at_ = now + kResendReconfigure;
}

void MembershipCore::Advance(Instant now, coord::Outbox& out) {
  if (state_ == State::kReconfiguring) {
    const bool done =
        std::all_of(stages_.begin(), stages_.end(), [](const auto& s) { return s.second.done; });
    const bool stage0_hears = options_.num_stages == 1 || stages_.at(0).sees_verdicts;
    if (!stages_complete() || !done || !own_probe_seen_ || !stage0_hears) return;
    state_ = State::kServing;
    resend_at_ = Instant::max();
    out.emplace_back(coord::Send{stages_.at(options_.num_stages - 1).hello.worker,
                                 ProbeSeen{generation_, VerdictSource().incarnation}, false});
    events_.push_back({MembershipEvent::Kind::kServing, ""});
    if (drafter_) StartDrafterJoin(now, out);
  }
  AdvanceDrafter(out);
}

void MembershipCore::AdvanceDrafter(coord::Outbox& out) {
  if (!serving() || !drafter_ || !drafter_->joining || drafter_->ready) return;
  const bool heard =
      std::all_of(stages_.begin(), stages_.end(), [](const auto& s) { return s.second.sees_proposals; });
  if (!drafter_->done || !drafter_->sees_verdicts || !heard) return;  // P19: both directions
  drafter_->ready = true;
  resend_at_ = Instant::max();
  const WorkerId drafter = drafter_->hello.worker;
  out.emplace_back(coord::Send{drafter, ProbeSeen{generation_, ProposalSource().incarnation}, false});
  out.emplace_back(coord::Send{stages_.at(options_.num_stages - 1).hello.worker,
                               ProbeSeen{generation_, VerdictSource().incarnation}, false});
  events_.push_back({MembershipEvent::Kind::kDrafterReady, ""});
}

// ---------------------------------------------------------------- loss

void MembershipCore::OnWorkerLost(const WorkerId& worker, std::string_view reason, Instant,
                                  coord::Outbox& out) {
  if (Find(worker) == nullptr) return;
  if (worker.role == Role::kDrafter) {
    LoseDrafter(reason, out);
  } else {
    LoseStage(worker.rank, reason, out);
  }
}

void MembershipCore::OnStageFault(std::string_view reason, Instant, coord::Outbox& out) {
  const auto last = stages_.find(options_.num_stages - 1);
  if (last == stages_.end()) return;
  out.emplace_back(coord::Send{last->second.hello.worker, Refusal{std::string(reason), 75}, false});
  LoseStage(last->first, reason, out);
}

void MembershipCore::LoseStage(uint32_t rank, std::string_view reason, coord::Outbox& out) {
  const auto it = stages_.find(rank);
  last_loss_ = fmt::format("{} is lost: {}", Name(it->second.hello), reason);
  stages_.erase(it);
  if (stages_.empty()) pinned_ = options_.fingerprint;
  if (state_ == State::kGathering) return;
  state_ = State::kGathering;
  resend_at_ = Instant::max();
  if (drafter_ && drafter_->joining) {
    // It joins the next generation as a newcomer.
    drafter_->joining = drafter_->ready = false;
  }
  out.emplace_back(coord::FollowVerdicts{});
  events_.push_back({MembershipEvent::Kind::kStageLost, last_loss_});
}

void MembershipCore::LoseDrafter(std::string_view reason, coord::Outbox& out) {
  const bool joined = drafter_->joining;
  const std::string name = Name(drafter_->hello);
  drafter_.reset();
  if (!joined) return;
  SendToStages(DrafterChange{generation_, {}}, out);
  events_.push_back({MembershipEvent::Kind::kDrafterLost, fmt::format("{} is lost: {}", name, reason)});
}

std::optional<std::string> MembershipCore::Silence(const Member& member, Instant now) const {
  if (now - member.heard_at >= options_.heartbeat_timeout) {
    return fmt::format("no heartbeat for {} ms", ToMicros(now - member.heard_at) / 1000);
  }
  if (member.beat.step_running != StepId(0) && now - member.progressed_at >= options_.step_timeout) {
    return fmt::format("step {} made no progress for {} s", member.beat.step_running,
                       static_cast<int64_t>(ToSeconds(now - member.progressed_at)));
  }
  return std::nullopt;
}

void MembershipCore::OnTick(Instant now, coord::Outbox& out) {
  std::vector<std::pair<uint32_t, std::string>> lost;
  for (const auto& [rank, member] : stages_) {
    if (const auto why = Silence(member, now)) lost.emplace_back(rank, *why);
  }
  for (const auto& [rank, why] : lost) LoseStage(rank, why, out);
  if (drafter_) {
    if (const auto why = Silence(*drafter_, now)) LoseDrafter(*why, out);
  }
  if (now < resend_at_) return;
  resend_at_ = now + kResendReconfigure;
  if (state_ == State::kReconfiguring) {
    for (const auto& [rank, member] : stages_) {
      if (!member.done) out.emplace_back(coord::Send{member.hello.worker, ConfigFor(rank), false});
    }
  } else if (drafter_ && drafter_->joining && !drafter_->done) {
    Reconfigure config = ConfigFor(options_.num_stages);
    config.proposals = ProposalSource();
    out.emplace_back(coord::Send{drafter_->hello.worker, config, false});
  }
}

Instant MembershipCore::NextDeadline() const {
  Instant next = resend_at_;
  const auto watch = [&](const Member& member) {
    next = std::min(next, member.heard_at + options_.heartbeat_timeout);
    if (member.beat.step_running != StepId(0)) {
      next = std::min(next, member.progressed_at + options_.step_timeout);
    }
  };
  for (const auto& [rank, member] : stages_) watch(member);
  if (drafter_) watch(*drafter_);
  return next;
}

// ---------------------------------------------------------------- queries

MembershipCore::Member* MembershipCore::Find(const WorkerId& worker) {
  if (worker.role == Role::kDrafter) {
    return drafter_ && drafter_->hello.worker == worker ? &*drafter_ : nullptr;
  }
  const auto it = stages_.find(worker.rank);
  return it != stages_.end() && it->second.hello.worker == worker ? &it->second : nullptr;
}

void MembershipCore::SendToStages(const WireMessage& message, coord::Outbox& out) const {
  for (const auto& [rank, member] : stages_)
    out.emplace_back(coord::Send{member.hello.worker, message, false});
}

void MembershipCore::SayGoodbye(std::string_view reason, coord::Outbox& out) {
  SendToStages(Goodbye{std::string(reason)}, out);
  if (drafter_) out.emplace_back(coord::Send{drafter_->hello.worker, Goodbye{std::string(reason)}, false});
}

std::vector<MembershipEvent> MembershipCore::TakeEvents() { return std::exchange(events_, {}); }

std::vector<WorkerId> MembershipCore::stages() const {
  std::vector<WorkerId> ids;
  for (const auto& [rank, member] : stages_) ids.push_back(member.hello.worker);
  return ids;
}

std::optional<WorkerId> MembershipCore::drafter() const {
  if (!drafter_ready()) return std::nullopt;
  return drafter_->hello.worker;
}

Status MembershipCore::Readiness() const {
  if (serving()) return OkStatus();
  std::string missing;
  for (uint32_t rank = 0; rank < options_.num_stages; ++rank) {
    const auto it = stages_.find(rank);
    if (it != stages_.end() && (state_ == State::kGathering || it->second.done)) continue;
    missing += fmt::format("{}stage {} ({})", missing.empty() ? "" : ", ", rank,
                           it == stages_.end() ? "no Hello yet" : it->second.beat.phase);
  }
  if (missing.empty()) missing = "the probe of the verdict log";
  const std::string loss = last_loss_.empty() ? "" : fmt::format("; {}", last_loss_);
  return UnavailableError("waiting for {}{}", missing, loss);
}

std::vector<WorkerStatus> MembershipCore::workers(Instant now) const {
  std::vector<WorkerStatus> all;
  const auto add = [&](const Member& member) {
    all.push_back({member.hello.worker, member.hello.host, member.hello.pid, member.beat.phase,
                   now - member.heard_at, member.beat.steps_done, member.beat.busy_micros,
                   member.beat.idle_micros});
  };
  for (const auto& [rank, member] : stages_) add(member);
  if (drafter_) add(*drafter_);
  return all;
}

}  // namespace paceline
