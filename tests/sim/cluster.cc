#include "tests/sim/cluster.h"

#include <algorithm>
#include <utility>

#include "tests/sim/sim_cluster.h"

namespace paceline::sim {
namespace {

constexpr Duration kVirtualLimit = 3000s;
constexpr Duration kGrace = 3s;

}  // namespace

// ---------------------------------------------------------------- processes

Hello SimCluster::MakeHello(const WorkerId& worker) const {
  Hello hello;
  hello.worker = worker;
  hello.fingerprint.model_digest = "toy";
  hello.fingerprint.tokenizer_digest = "toy";
  hello.fingerprint.build_id = "sim";
  hello.fingerprint.pipeline_size = scenario_.num_stages;
  hello.host = "sim";
  hello.kv_blocks = scenario_.kv_blocks;
  hello.kv_block_size = scenario_.kv_block_size;
  hello.endpoints.log_publish = fmt::format("sim:{}", worker.boot_nonce);
  return hello;
}

void SimCluster::StartCoordinator() {
  CoordinatorOptions options;
  options.boot_nonce = 7;
  options.fingerprint = MakeHello({}).fingerprint;
  options.num_stages = scenario_.num_stages;
  options.num_slots = scenario_.num_slots;
  options.launch_window = scenario_.launch_window;
  options.max_num_seqs = scenario_.max_num_seqs;
  options.max_num_batched_tokens = scenario_.max_num_batched_tokens;
  options.max_model_len = scenario_.max_model_len;
  options.num_speculative_tokens = scenario_.draft_len;
  options.frames_in_flight_max = scenario_.frames_in_flight_max;
  options.broken = scenario_.broken;
  coordinator_.id = kCoordinatorNode;
  coordinator_.alive = true;
  coordinator_.life = 7;
  coordinator_.core = std::make_unique<CoordinatorCore>(options);
  OnCoordinator([](coord::Outbox&) {});
}

void SimCluster::StartStage(uint32_t index) {
  SimStage& node = stage(index);
  node.id = StageNodeId(index);
  node.alive = true;
  node.life = ++boots_;
  node.worker = {Role::kStage, index, node.life};
  StageOptions options;
  options.worker = node.worker;
  options.stage = index;
  options.num_stages = scenario_.num_stages;
  options.hidden_size = 1;
  options.vocab_size = scenario_.vocabulary.size;
  options.late.unbounded = scenario_.waits_for_proposals;
  options.broken = scenario_.broken;
  node.core = std::make_unique<StageCore>(options);
  node.executor = std::make_unique<ToyExecutor>(ToyExecutor::Options{
      index, index + 1 == scenario_.num_stages, scenario_.vocabulary, scenario_.max_model_len});
  ToCoordinator(node, node.worker, MakeHello(node.worker));
  OnStage(index, [](stage::Outbox&) {});
}

void SimCluster::StartDrafter() {
  drafter_.id = kDrafterNode;
  drafter_.alive = true;
  drafter_.life = ++boots_;
  drafter_.worker = {Role::kDrafter, 0, drafter_.life};
  DraftOptions options;
  options.worker = drafter_.worker;
  options.broken = scenario_.broken;
  drafter_.core = std::make_unique<DraftCore>(options);
  drafter_.proposer =
      std::make_unique<ToyProposer>(scenario_.agreement, scenario_.seed, scenario_.vocabulary);
  ToCoordinator(drafter_, drafter_.worker, MakeHello(drafter_.worker));
  OnDrafter([](draft::Outbox&) {});
}

// What a dead publisher had sent reaches some subscribers and not others.
void SimCluster::CutPublications(const SimNode& node) {
  for (SimNetwork::NodeId to : {kCoordinatorNode, kDrafterNode}) {
    if (net_.random().Chance(0.5)) cut_.insert({node.life, to});
  }
  for (const SimStage& s : stages_) {
    if (net_.random().Chance(0.5)) cut_.insert({node.life, s.id});
  }
}

void SimCluster::KillStage(uint32_t index) {
  SimStage& node = stage(index);
  if (!node.alive) {
    --faults_left_;
    return;
  }
  ++stage_deaths_seen_;
  CutPublications(node);
  const WorkerId worker = node.worker;
  node.alive = false;
  node.core.reset();
  node.payloads.clear();
  node.running = false;
  node.when_idle = nullptr;
  node.verdicts = node.proposals = {};
  node.tick_at = Instant::max();
  if (net_.random().Chance(0.7)) {  // else its silence is noticed
    net_.At(net_.now() + net_.random().Micros(0, 100'000), 11, [this, worker] {
      OnCoordinator(
          [&](coord::Outbox& out) { coordinator_.core->OnWorkerLost(worker, "killed", net_.now(), out); });
    });
  }
  net_.At(net_.now() + net_.random().Micros(100, 200'000), 12, [this, index] {
    --faults_left_;
    StartStage(index);
  });
}

void SimCluster::KillDrafter() {
  if (!drafter_.alive) {
    --faults_left_;
    return;
  }
  CutPublications(drafter_);
  const WorkerId worker = drafter_.worker;
  drafter_.alive = false;
  drafter_.core.reset();
  drafter_.verdicts = {};
  drafter_.tick_at = Instant::max();
  if (net_.random().Chance(0.7)) {
    net_.At(net_.now() + net_.random().Micros(0, 100'000), 13, [this, worker] {
      OnCoordinator(
          [&](coord::Outbox& out) { coordinator_.core->OnWorkerLost(worker, "killed", net_.now(), out); });
    });
  }
  net_.At(net_.now() + net_.random().Micros(100, 200'000), 14, [this] {
    --faults_left_;
    StartDrafter();
  });
}

// ---------------------------------------------------------------- handlers

void SimCluster::ArmTick(SimNode& node, Instant deadline, std::function<void()> tick) {
  if (deadline == Instant::max() || deadline >= node.tick_at) return;
  // A deadline in the past means "at once"; a microsecond keeps the clock moving.
  node.tick_at = std::max(deadline, net_.now() + 1us);
  const uint64_t life = node.life;
  const Instant at = node.tick_at;
  net_.At(at, 20 + node.id, [&node, life, at, run = std::move(tick)] {
    if (!node.alive || node.life != life || node.tick_at != at) return;
    node.tick_at = Instant::max();
    run();
  });
}

void SimCluster::OnCoordinator(const std::function<void(coord::Outbox&)>& handle) {
  coord::Outbox out;
  handle(out);
  for (coord::Action& action : out) Do(action);
  ArmTick(coordinator_, coordinator_.core->NextDeadline(),
          [this] { OnCoordinator([this](coord::Outbox& o) { coordinator_.core->OnTick(net_.now(), o); }); });
}

void SimCluster::OnStage(uint32_t index, const std::function<void(stage::Outbox&)>& handle) {
  SimStage& node = stage(index);
  if (!node.alive) return;
  stage::Outbox out;
  handle(out);
  for (stage::Action& action : out) {
    if (node.alive) Do(node, action);
  }
  if (!node.alive) return;
  ArmTick(node, node.core->NextDeadline(), [this, index] {
    OnStage(index, [this, index](stage::Outbox& o) { stage(index).core->OnTick(net_.now(), o); });
  });
}

void SimCluster::OnDrafter(const std::function<void(draft::Outbox&)>& handle) {
  if (!drafter_.alive) return;
  draft::Outbox out;
  handle(out);
  for (draft::Action& action : out) Do(action);
  ArmTick(drafter_, drafter_.core->NextDeadline(),
          [this] { OnDrafter([this](draft::Outbox& o) { drafter_.core->OnTick(net_.now(), o); }); });
}

// ---------------------------------------------------------------- clients

void SimCluster::Submit(size_t index) {
  SimClient& client = clients_[index];
  const SimRequest& request = scenario_.requests[index];
  if (client.cancelled) {
    client.done = true;
    return;
  }
  client.sequence = SequenceId(++sequences_);
  client.ids.clear();
  client.text.clear();
  GenerationRequest generation;
  generation.prompt = request.prompt;
  generation.sampling = request.sampling;
  if (request.pair.present) {
    generation.text = std::make_shared<PairWatcher>(request.pair.first, request.pair.second);
  }
  client_of_[client.sequence] = index;
  Status status;
  OnCoordinator([&](coord::Outbox& out) {
    status = coordinator_.core->OnSubmit(client.sequence, std::move(generation), net_.now(), out);
  });
  if (status.ok()) return;
  client_of_.erase(client.sequence);
  if (status.code() != absl::StatusCode::kUnavailable) Fail(fmt::format("submit: {}", status.ToString()));
  net_.At(net_.now() + 20ms, 200, [this, index] { Submit(index); });
}

void SimCluster::OnDelta(const coord::Deliver& deliver) {
  const auto of = client_of_.find(deliver.sequence);
  if (of == client_of_.end()) return Fail("a delta for a sequence that ended");
  const size_t index = of->second;
  SimClient& client = clients_[index];
  const GenerationDelta& delta = deliver.delta;
  const std::vector<TokenId>& want = client.expected.ids;
  for (size_t i = 0; i < delta.ids.size(); ++i) {
    const size_t at = client.ids.size();
    if (at >= want.size() || want[at] != delta.ids[i]) {
      return Fail(fmt::format("request {} seq {} output {} is {}, plain decoding has {}", index,
                              deliver.sequence, at, delta.ids[i],
                              at < want.size() ? fmt::format("{}", want[at]) : "ended before"));
    }
    const auto position = static_cast<Position>(scenario_.requests[index].prompt.size() + at);
    if (delta.logprobs.size() != delta.ids.size() ||
        delta.logprobs[i].logprob != ToyLogprob(delta.ids[i], position)) {
      return Fail(fmt::format("request {} output {} has another token's logprob", index, at));
    }
    client.ids.push_back(delta.ids[i]);
  }
  result_.tokens += delta.ids.size();
  client.text += delta.text;
  if (delta.finish == FinishReason::kNone) return;
  client_of_.erase(of);
  client.finish = delta.finish;
  if (delta.finish == FinishReason::kError) {
    const std::string why(Message(delta.error));
    if (stage_deaths_seen_ == 0 || why.find("stage ") == std::string::npos)
      return Fail("request error: " + why);
    net_.At(net_.now() + 20ms, 201, [this, index] { Submit(index); });
    return;
  }
  client.done = true;
  CheckFinished(client, scenario_.requests[index]);
}

void SimCluster::CheckFinished(const SimClient& client, const SimRequest& request) {
  if (client.finish == FinishReason::kCancelled) {
    if (!client.cancelled) Fail("cancelled without a cancel");
    return;
  }
  if (client.finish != client.expected.finish || client.ids != client.expected.ids) {
    Fail(fmt::format("seq {} ended with reason {} after {} ids, plain decoding with {} after {}",
                     client.sequence, static_cast<int>(client.finish), client.ids.size(),
                     static_cast<int>(client.expected.finish), client.expected.ids.size()));
  }
  if (request.pair.present && client.text != client.expected.text) {
    Fail(fmt::format("seq {} text is \"{}\", plain decoding has \"{}\"", client.sequence, client.text,
                     client.expected.text));
  }
}

bool SimCluster::AllDone() const {
  return faults_left_ == 0 &&
         std::all_of(clients_.begin(), clients_.end(), [](const SimClient& c) { return c.done; });
}

// ---------------------------------------------------------------- the run

void SimCluster::CheckAtRest() {
  if (!coordinator_.core->Readiness().ok()) return Fail("at rest the cluster does not serve");
  if (!coordinator_.core->idle()) return Fail("the coordinator is not idle");
  for (const SimStage& node : stages_) {
    const StageStats stats = node.core->stats();
    if (stats.sequences_known != 0)
      Fail(fmt::format("stage {} still knows {} sequences", node.worker.rank, stats.sequences_known));
    if (stats.plans_pending != 0)
      Fail(fmt::format("stage {} still has {} plans", node.worker.rank, stats.plans_pending));
    if (stats.position_mismatches != 0)
      Fail(fmt::format("P11: {} frames were off position", stats.position_mismatches));
    if (!node.payloads.empty())
      Fail(fmt::format("stage {} keeps {} payloads", node.worker.rank, node.payloads.size()));
    if (node.executor->sequences_known() != 0) Fail("an executor still knows sequences");
  }
  if (!drafter_.alive) return;
  const DraftStats stats = drafter_.core->stats();
  if (stats.sequences_known != 0 || drafter_.proposer->sequences_known() != 0)
    Fail("the drafter still knows sequences");
  if (stats.plans_pending != 0) Fail("the drafter still has plans");
  // An admission that is sent again may come after verdicts of its sequence: no drafts then, nothing worse.
  if (stats.chains_broken != 0 && scenario_.control_loss == 0)
    Fail("P19: a drafter applied a verdict that its admission includes");
}

std::string SimCluster::Describe() const {
  const CoordinatorStats stats = coordinator_.core->stats();
  std::string text = fmt::format(
      "coordinator: {}, running {} waiting {} slots free {} kv free {}/{} steps {} booked {} faults left {}",
      coordinator_.core->Readiness().ToString(), stats.requests_running, stats.requests_waiting,
      stats.slots_free, stats.kv_blocks_free, stats.kv_blocks_total, stats.steps_planned,
      stats.verdicts_booked, faults_left_);
  for (const SimStage& node : stages_) {
    if (!node.alive) continue;
    const StageStats s = node.core->stats();
    text += fmt::format("; stage {}: plans {} done {} executing {} asked plans {} proposals {}",
                        node.worker.rank, s.plans_pending, s.steps_done, node.core->executing(),
                        s.plans_asked_again, s.proposals_asked_again);
  }
  if (drafter_.alive) {
    const DraftStats s = drafter_.core->stats();
    text += fmt::format("; drafter: plans {} proposals {} asked verdicts {} plans {}", s.plans_pending,
                        s.proposals, s.verdicts_asked_again, s.plans_asked_again);
  }
  return text;
}

SimResult SimCluster::Run() {
  stages_.resize(scenario_.num_stages);
  clients_.resize(scenario_.requests.size());
  StartCoordinator();
  for (uint32_t i = 0; i < scenario_.num_stages; ++i) {
    stages_[i].worker.rank = i;
    net_.At(Instant{} + net_.random().Micros(0, 5'000), 1, [this, i] { StartStage(i); });
  }
  if (scenario_.has_drafter)
    net_.At(Instant{} + net_.random().Micros(0, 20'000), 2, [this] { StartDrafter(); });
  faults_left_ = scenario_.drafter_deaths.size() + scenario_.stage_deaths.size();
  for (Instant at : scenario_.drafter_deaths) net_.At(at, 3, [this] { KillDrafter(); });
  for (Instant at : scenario_.stage_deaths) {
    net_.At(at, 4,
            [this] { KillStage(static_cast<uint32_t>(net_.random().Between(0, scenario_.num_stages - 1))); });
  }
  for (size_t i = 0; i < scenario_.requests.size(); ++i) {
    const SimRequest& request = scenario_.requests[i];
    clients_[i].expected = PlainAnswer(request.prompt, request.sampling, request.pair,
                                       scenario_.max_model_len, scenario_.vocabulary);
    net_.At(request.at, 5, [this, i] { Submit(i); });
    if (request.cancel_at != Instant::max()) {
      net_.At(request.cancel_at, 6, [this, i] {
        clients_[i].cancelled = true;
        OnCoordinator(
            [&](coord::Outbox& out) { coordinator_.core->OnCancel(clients_[i].sequence, net_.now(), out); });
      });
    }
    for (Instant at : request.preempt_at) {
      net_.At(at, 7, [this, i] {
        OnCoordinator(
            [&](coord::Outbox& out) { coordinator_.core->OnPreempt(clients_[i].sequence, net_.now(), out); });
      });
    }
  }
  const Instant limit = Instant{} + kVirtualLimit;
  while (failure_.empty() &&
         !(AllDone() && coordinator_.core->Readiness().ok() && coordinator_.core->idle())) {
    if (!net_.RunOne(limit) || net_.events() > scenario_.events_max) {
      Fail("virtual deadline: not everything ended; " + Describe());
      break;
    }
  }
  const Instant end = net_.now();
  while (failure_.empty() && net_.RunOne(end + kGrace)) {
  }
  if (failure_.empty()) CheckAtRest();
  result_.failure = failure_;
  result_.hash = net_.hash();
  result_.events = net_.events();
  result_.virtual_time = end - Instant{};
  const CoordinatorStats stats = coordinator_.core->stats();
  result_.steps = stats.steps_planned;
  result_.drafts_accepted = stats.accepted_tokens;
  result_.drafts_rejected = stats.wasted_rejected;
  result_.preemptions = stats.preemptions;
  result_.generations = stats.generations;
  return result_;
}

SimResult RunScenario(const Scenario& scenario) { return SimCluster(scenario).Run(); }

}  // namespace paceline::sim
