#include <algorithm>
#include <utility>

#include "tests/sim/sim_cluster.h"

namespace paceline::sim {

// ---------------------------------------------------------------- outbox items

void SimCluster::Do(coord::Action& action) {
  if (auto* send = std::get_if<coord::Send>(&action)) {
    if (const auto* plan = std::get_if<StepPlan>(&send->message)) {
      for (const SequencePlan& sequence : plan->sequences) result_.run_ahead_steps += sequence.continuation;
    }
    ToWorker(send->to, std::move(send->message), send->urgent);
  } else if (auto* deliver = std::get_if<coord::Deliver>(&action)) {
    OnDelta(*deliver);
  } else if (auto* request = std::get_if<coord::RequestReplay>(&action)) {
    AskStage(coordinator_, request->request, [this](const WireMessage& answer) {
      OnCoordinator([&](coord::Outbox& out) { coordinator_.core->OnLogMessage(answer, net_.now(), out); });
    });
  } else if (auto* follow = std::get_if<coord::FollowVerdicts>(&action)) {
    Follow(coordinator_.verdicts, follow->source.incarnation);
  }
}

void SimCluster::Do(SimStage& node, stage::Action& action) {
  const uint32_t index = node.worker.rank;
  if (auto* send = std::get_if<stage::SendControl>(&action)) {
    ToCoordinator(node, node.worker, std::move(send->message));
  } else if (auto* publish = std::get_if<stage::Publish>(&action)) {
    PublishLog(node, publish->message);
  } else if (auto* answer = std::get_if<stage::AnswerReplay>(&action)) {
    const auto reply = replay_answers_.extract(answer->peer.value());
    if (!reply.empty()) reply.mapped()(answer->message);
  } else if (auto* request = std::get_if<stage::RequestReplay>(&action)) {
    AskDrafter(node, request->request, [this, index](const WireMessage& m) {
      OnStage(index, [&](stage::Outbox& out) { stage(index).core->OnMessage(m, net_.now(), out); });
    });
  } else if (auto* execute = std::get_if<stage::Execute>(&action)) {
    Do(node, *execute);
  } else if (auto* forward = std::get_if<stage::ForwardFrame>(&action)) {
    Do(node, *forward);
  } else if (auto* free = std::get_if<stage::FreePayload>(&action)) {
    node.payloads.erase(free->payload);
  } else if (auto* admit = std::get_if<stage::AdmitSequence>(&action)) {
    node.executor->Admit(admit->admission);
  } else if (auto* forget = std::get_if<stage::ForgetSequence>(&action)) {
    node.executor->Forget(forget->key);
  } else if (auto* dead = std::get_if<stage::RowsDied>(&action)) {
    if (net_.random().Chance(0.5)) node.died.insert(dead->key);  // else the layers were through already
  } else if (auto* build = std::get_if<stage::BuildEdges>(&action)) {
    Do(node, *build);
  } else if (auto* follow = std::get_if<stage::FollowProposals>(&action)) {
    Follow(node.proposals, follow->source.incarnation);
  } else if (auto* leave = std::get_if<stage::Leave>(&action)) {
    Fail(fmt::format("stage {} leaves: {}", index, leave->reason.ToString()));
    node.alive = false;
  }
}

void SimCluster::Do(draft::Action& action) {
  if (auto* send = std::get_if<draft::SendControl>(&action)) {
    ToCoordinator(drafter_, drafter_.worker, std::move(send->message));
  } else if (auto* publish = std::get_if<draft::Publish>(&action)) {
    PublishLog(drafter_, publish->message);
  } else if (auto* answer = std::get_if<draft::AnswerReplay>(&action)) {
    const auto reply = replay_answers_.extract(answer->peer.value());
    if (!reply.empty()) reply.mapped()(answer->message);
  } else if (auto* request = std::get_if<draft::RequestReplay>(&action)) {
    const uint64_t life = drafter_.life;
    AskStage(drafter_, request->request, [this, life](const WireMessage& m) {
      if (drafter_.life != life) return;
      OnDrafter([&](draft::Outbox& out) { drafter_.core->OnMessage(m, net_.now(), out); });
    });
  } else if (auto* propose = std::get_if<draft::Propose>(&action)) {
    const uint64_t life = drafter_.life;
    const auto span = static_cast<uint64_t>(ToMicros(scenario_.draft_max - scenario_.draft_min));
    const Duration takes = scenario_.draft_min + net_.random().Micros(0, span);
    net_.At(
        net_.now() + takes, 30,
        [this, life, step = propose->step, ids = drafter_.proposer->Propose(propose->items)] {
          if (!drafter_.alive || drafter_.life != life) return;
          OnDrafter([&](draft::Outbox& out) { drafter_.core->OnProposed(step, ids, 1, net_.now(), out); });
        });
  } else if (auto* admit = std::get_if<draft::AdmitSequence>(&action)) {
    drafter_.proposer->Admit(admit->admission);
  } else if (auto* release = std::get_if<draft::ReleaseSequence>(&action)) {
    drafter_.proposer->Release(release->key);
  } else if (std::holds_alternative<draft::ResetProposer>(action)) {
    drafter_.proposer->Reset();
  } else if (auto* follow = std::get_if<draft::FollowVerdicts>(&action)) {
    Follow(drafter_.verdicts, follow->source.incarnation);
    const uint64_t life = drafter_.life;
    net_.At(net_.now() + net_.Delay(), 31, [this, life, generation = follow->generation] {
      if (drafter_.life != life) return;
      OnDrafter([&](draft::Outbox& out) { drafter_.core->OnEdgesReady(generation, net_.now(), out); });
    });
  } else if (auto* leave = std::get_if<draft::Leave>(&action)) {
    Fail(fmt::format("the drafter leaves: {}", leave->reason.ToString()));
  }
}

// ---------------------------------------------------------------- compute and tensors

void SimCluster::Do(SimStage& node, stage::Execute& execute) {
  if (node.running) Fail("two frames execute at once");
  node.running = true;
  node.died.clear();
  const uint64_t life = node.life;
  const auto span = static_cast<uint64_t>(ToMicros(scenario_.compute_max - scenario_.compute_min));
  const Duration takes = scenario_.compute_min + net_.random().Micros(0, span);
  net_.At(net_.now() + takes, 40 + node.id, [this, &node, life, work = std::move(execute.work)] {
    if (node.alive && node.life == life) FinishExecution(node, work);
  });
}

void SimCluster::FinishExecution(SimStage& node, const StageWork& work) {
  const uint32_t index = node.worker.rank;
  node.running = false;
  ExecutionResult result;
  result.generation = work.generation;
  result.step = work.step;
  if (!node.when_idle) {
    const auto input = node.payloads.find(work.input);
    const ToyPayload zeros(work.payload_rows);  // handle 0 at a later stage: every row was dead before
    ToyPayload output;
    std::string failure;
    result = node.executor->Run(work, input == node.payloads.end() ? &zeros : &input->second, node.died,
                                output, failure);
    if (!failure.empty()) Fail(failure);
    if (index + 1 < scenario_.num_stages) {
      result.output = PayloadHandle(++node.handles);
      node.payloads[result.output] = std::move(output);
    }
  }
  OnStage(index, [&](stage::Outbox& out) { node.core->OnExecuted(std::move(result), net_.now(), out); });
  if (node.when_idle) std::exchange(node.when_idle, nullptr)();
}

void SimCluster::Do(SimStage& node, stage::ForwardFrame& forward) {
  ToyPayload payload(forward.header.rows.size());
  if (const auto it = node.payloads.find(forward.payload); it != node.payloads.end()) {
    payload = std::move(it->second);
    node.payloads.erase(it);
  }
  SimStage& next = stage(node.worker.rank + 1);
  const uint64_t life = next.life;
  net_.Send(node.id, next.id, Lane::kTensor, 50,
            [this, &next, life, header = forward.header, rows = std::move(payload)] {
              if (!next.alive || next.life != life) return;
              const PayloadHandle handle(++next.handles);
              next.payloads[handle] = rows;
              OnStage(next.worker.rank,
                      [&](stage::Outbox& out) { next.core->OnFrame(header, handle, net_.now(), out); });
            });
}

void SimCluster::Do(SimStage& node, stage::BuildEdges& build) {
  if (node.worker.rank == 0) Follow(node.verdicts, build.config.verdicts.incarnation);
  const uint64_t life = node.life;
  const auto reset = [this, &node, life, config = build.config] {
    net_.At(net_.now() + net_.Delay(), 41, [this, &node, life, config] {
      if (!node.alive || node.life != life) return;
      node.executor->Reset(config.kv_blocks, config.kv_block_size);
      OnStage(node.worker.rank,
              [&](stage::Outbox& out) { node.core->OnEdgesReady(config.generation, net_.now(), out); });
    });
  };
  if (node.running) {
    node.when_idle = reset;
  } else {
    reset();
  }
}

// ---------------------------------------------------------------- planes

namespace {

// The protocol asks for these again when a reconnect loses them.
bool MayBeLost(const WireMessage& message) {
  return std::holds_alternative<StepPlan>(message) || std::holds_alternative<Admission>(message) ||
         std::holds_alternative<Launched>(message) || std::holds_alternative<PlanRequest>(message) ||
         std::holds_alternative<Cancel>(message);
}

}  // namespace

void SimCluster::ToCoordinator(const SimNode& from, const WorkerId& worker, WireMessage message) {
  if (MayBeLost(message) && net_.random().Chance(scenario_.control_loss)) return;
  net_.Send(
      from.id, kCoordinatorNode, Lane::kControl, 60 + message.index(),
      [this, worker, m = std::move(message)] {
        OnCoordinator([&](coord::Outbox& out) { coordinator_.core->OnMessage(worker, m, net_.now(), out); });
      });
}

void SimCluster::ToWorker(const WorkerId& to, WireMessage message, bool urgent) {
  if (urgent && net_.random().Chance(scenario_.urgent_loss)) return;
  if (!urgent && MayBeLost(message) && net_.random().Chance(scenario_.control_loss)) return;
  const SimNetwork::NodeId node = to.role == Role::kStage ? StageNodeId(to.rank) : kDrafterNode;
  net_.Send(kCoordinatorNode, node, urgent ? Lane::kUrgent : Lane::kControl, 90 + message.index(),
            [this, to, m = std::move(message)] { DeliverToWorker(to, m); });
}

void SimCluster::DeliverToWorker(const WorkerId& to, const WireMessage& message) {
  if (to.role == Role::kStage) {
    SimStage& node = stage(to.rank);
    if (!node.alive || node.life != to.boot_nonce) return;
    OnStage(to.rank, [&](stage::Outbox& out) { node.core->OnMessage(message, net_.now(), out); });
  } else if (drafter_.alive && drafter_.life == to.boot_nonce) {
    OnDrafter([&](draft::Outbox& out) { drafter_.core->OnMessage(message, net_.now(), out); });
  }
}

void SimCluster::Follow(Subscription& subscription, Incarnation incarnation) {
  subscription = {incarnation, net_.now() + net_.Delay()};
}

void SimCluster::PublishTo(const SimNode& from, const SimNode& to, const WireMessage& message,
                           std::function<void(const WireMessage&)> deliver) {
  const auto hears = [&](const Subscription& subscription) {
    return subscription.incarnation == Incarnation(from.life) && subscription.active_from <= net_.now();
  };
  if (!hears(to.verdicts) && !hears(to.proposals)) return;
  if (net_.random().Chance(scenario_.publish_loss)) return;
  const auto arrive = [this, publisher = from.life, id = to.id, life = to.life, &to, message, deliver] {
    if (cut_.contains({publisher, id}) || !to.alive || to.life != life) return;
    deliver(message);
  };
  const uint64_t tag = 130 + message.index();
  if (net_.random().Chance(scenario_.publish_double)) net_.SendLate(tag, arrive);
  if (net_.random().Chance(scenario_.publish_late)) return net_.SendLate(tag, arrive);
  net_.Send(from.id, to.id, Lane::kPublish, tag, arrive);
}

void SimCluster::PublishLog(const SimNode& from, const WireMessage& message) {
  PublishTo(from, coordinator_, message, [this](const WireMessage& m) {
    OnCoordinator([&](coord::Outbox& out) { coordinator_.core->OnLogMessage(m, net_.now(), out); });
  });
  PublishTo(from, drafter_, message, [this](const WireMessage& m) {
    OnDrafter([&](draft::Outbox& out) { drafter_.core->OnMessage(m, net_.now(), out); });
  });
  for (SimStage& node : stages_) {
    const uint32_t index = node.worker.rank;
    PublishTo(from, node, message, [this, index](const WireMessage& m) {
      OnStage(index, [&](stage::Outbox& out) { stage(index).core->OnMessage(m, net_.now(), out); });
    });
  }
}

void SimCluster::AskStage(const SimNode& from, const ReplayRequest& request,
                          std::function<void(const WireMessage&)> answer) {
  SimStage& last = stage(scenario_.num_stages - 1);
  const uint64_t peer = ++replay_peers_;
  const SimNetwork::NodeId asker = from.id;
  replay_answers_[peer] = [this, asker, &last, answer](const WireMessage& m) {
    net_.Send(last.id, asker, Lane::kReplay, 170 + m.index(), [answer, m] { answer(m); });
  };
  net_.Send(from.id, last.id, Lane::kReplay, 160, [this, &last, peer, request] {
    OnStage(last.worker.rank, [&](stage::Outbox& out) {
      last.core->OnReplayRequest(ReplayPeer(peer), request, net_.now(), out);
    });
    replay_answers_.erase(peer);
  });
}

void SimCluster::AskDrafter(const SimNode& from, const ReplayRequest& request,
                            std::function<void(const WireMessage&)> answer) {
  const uint64_t peer = ++replay_peers_;
  const SimNetwork::NodeId asker = from.id;
  replay_answers_[peer] = [this, asker, answer](const WireMessage& m) {
    net_.Send(kDrafterNode, asker, Lane::kReplay, 190 + m.index(), [answer, m] { answer(m); });
  };
  net_.Send(from.id, kDrafterNode, Lane::kReplay, 180, [this, peer, request] {
    OnDrafter([&](draft::Outbox& out) {
      drafter_.core->OnReplayRequest(draft::ReplayPeer(peer), request, net_.now(), out);
    });
    replay_answers_.erase(peer);
  });
}

}  // namespace paceline::sim
