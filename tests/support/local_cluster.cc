#include "tests/support/local_cluster.h"

#include <deque>
#include <functional>
#include <map>
#include <variant>

#include "common/base/check.h"
#include "common/model/partition.h"
#include "coordinator/coordinator_core.h"
#include "draft_worker/core/draft_core.h"
#include "draft_worker/model_proposer.h"
#include "draft_worker/ngram_proposer.h"
#include "stage_worker/core/stage_core.h"
#include "stage_worker/cpu_executor.h"

namespace paceline::testing {
namespace {

// A test that needs more events than this does not end.
constexpr uint64_t kEventsMax = 50'000'000;
constexpr Instant kStart = Instant(1000s);

struct StageNode {
  WorkerId worker;
  PayloadStore payloads;
  DeadRows dead;
  std::unique_ptr<CpuExecutor> executor;
  std::unique_ptr<StageCore> core;
};

struct DraftNode {
  WorkerId worker;
  std::unique_ptr<Proposer> proposer;
  std::unique_ptr<DraftCore> core;
};

}  // namespace

class LocalCluster::Impl {
 public:
  Impl(const WeightSource& source, const LocalClusterOptions& options) : source_(source), options_(options) {
    MakeCoordinator();
    MakeStages();
    if (options_.drafter != LocalDrafter::kNone) MakeDrafter();
    RunUntil([&] {
      return coordinator_->Readiness().ok() && (draft_ == nullptr || coordinator_->drafter_ready());
    });
  }

  std::vector<LocalAnswer> Generate(const std::vector<LocalRequest>& requests) {
    answers_.assign(requests.size(), {});
    open_ = requests.size();
    for (size_t i = 0; i < requests.size(); ++i) {
      const SequenceId sequence(++sequences_);
      index_of_[sequence] = i;
      GenerationRequest request;
      request.prompt = requests[i].prompt;
      request.sampling = requests[i].sampling;
      TellCoordinator([&](coord::Outbox& out) {
        CHECK_OK(coordinator_->OnSubmit(sequence, std::move(request), now_, out)) << "submit";
      });
    }
    RunUntil([&] { return open_ == 0 && coordinator_->idle(); });
    return std::move(answers_);
  }

 private:
  using Event = std::function<void()>;

  void MakeCoordinator() {
    CoordinatorOptions options;
    options.num_stages = options_.num_stages;
    options.num_slots = options_.num_slots;
    options.max_num_batched_tokens = options_.max_num_batched_tokens;
    options.max_model_len = options_.max_model_len;
    options.expects_drafter = options_.drafter != LocalDrafter::kNone;
    options.num_speculative_tokens = options.expects_drafter ? options_.num_speculative_tokens : 0;
    options.frames_in_flight_max = options_.frames_in_flight_max;
    // The clock jumps over idle time, and compute takes none of it.
    options.heartbeat_timeout = options.step_timeout = 3600s;
    coordinator_ = std::make_unique<CoordinatorCore>(options);
    TellCoordinator([&](coord::Outbox& out) { coordinator_->OnTick(now_, out); });
  }

  void MakeStages() {
    const auto layers = PartitionLayers("even", source_.config().num_layers, options_.num_stages);
    CHECK_OK(layers.status()) << "partition";
    for (uint32_t s = 0; s < options_.num_stages; ++s) {
      stages_.push_back(std::make_unique<StageNode>());
      StageNode& node = *stages_.back();
      node.worker = {Role::kStage, s, 100 + s};
      CpuExecutorOptions executor;
      executor.layers = (*layers)[s];
      executor.rows_max = options_.max_num_batched_tokens;
      executor.positions_max = options_.max_model_len;
      executor.kv_blocks = options_.kv_blocks;
      executor.kv_block_size = options_.kv_block_size;
      executor.threads = options_.threads;
      auto made = CpuExecutor::Create(source_, executor, node.payloads, node.dead);
      CHECK_OK(made.status()) << "executor";
      node.executor = *std::move(made);
      StageOptions core;
      core.worker = node.worker;
      core.stage = s;
      core.num_stages = options_.num_stages;
      core.hidden_size = source_.config().hidden_size;
      core.vocab_size = source_.config().vocab_size;
      core.late.unbounded = true;
      node.core = std::make_unique<StageCore>(core);
      Hello hello;
      hello.worker = node.worker;
      hello.endpoints.log_publish = hello.endpoints.log_replay =
          s + 1 == options_.num_stages ? "verdicts" : "";
      hello.endpoints.tensor_listen = s > 0 ? "frames" : "";
      hello.kv_blocks = options_.kv_blocks;
      hello.kv_block_size = options_.kv_block_size;
      ToCoordinator(node.worker, hello);
    }
  }

  void MakeDrafter() {
    draft_ = std::make_unique<DraftNode>();
    draft_->worker = {Role::kDrafter, 0, 200};
    if (options_.drafter == LocalDrafter::kNgram) {
      draft_->proposer = std::make_unique<NgramProposer>(NgramOptions{.min_n = 1, .max_n = 3});
    } else {
      ModelProposerOptions proposer;
      proposer.target_vocab_size = source_.config().vocab_size;
      proposer.positions_max = options_.max_model_len;
      proposer.rows_max = 64;
      proposer.kv_blocks = options_.kv_blocks;
      proposer.kv_block_size = options_.kv_block_size;
      proposer.sampling = options_.draft_sampling;
      auto made = ModelProposer::Create(*options_.draft_source, proposer);
      CHECK_OK(made.status()) << "proposer";
      draft_->proposer = *std::move(made);
    }
    DraftOptions core;
    core.worker = draft_->worker;
    draft_->core = std::make_unique<DraftCore>(core);
    Hello hello;
    hello.worker = draft_->worker;
    hello.endpoints.log_publish = hello.endpoints.log_replay = "proposals";
    ToCoordinator(draft_->worker, hello);
  }

  template <typename Done>
  void RunUntil(Done done) {
    for (uint64_t events = 0; !done(); ++events) {
      CHECK_LT(events, kEventsMax) << "the cluster does not come to an end";
      if (queue_.empty()) {
        JumpToNextTimer();
        continue;
      }
      const Event event = std::move(queue_.front());
      queue_.pop_front();
      now_ += 1us;
      event();
    }
  }

  void JumpToNextTimer() {
    Instant next = coordinator_->NextDeadline();
    for (const auto& node : stages_) next = std::min(next, node->core->NextDeadline());
    if (draft_ != nullptr) next = std::min(next, draft_->core->NextDeadline());
    CHECK(next != Instant::max()) << "nothing is left to do and nothing is done";
    now_ = std::max(now_ + 1us, next);
    TellCoordinator([&](coord::Outbox& out) { coordinator_->OnTick(now_, out); });
    for (const auto& node : stages_)
      TellStage(*node, [&](stage::Outbox& out) { node->core->OnTick(now_, out); });
    if (draft_ != nullptr) TellDraft([&](draft::Outbox& out) { draft_->core->OnTick(now_, out); });
  }

  // --- messages ---

  void Later(Event event) { queue_.push_back(std::move(event)); }

  void ToCoordinator(const WorkerId& from, WireMessage message) {
    Later([this, from, message = std::move(message)] {
      TellCoordinator([&](coord::Outbox& out) { coordinator_->OnMessage(from, message, now_, out); });
    });
  }
  void LogToCoordinator(const WireMessage& message) {
    Later([this, message] {
      TellCoordinator([&](coord::Outbox& out) { coordinator_->OnLogMessage(message, now_, out); });
    });
  }
  void ToStage(StageNode& node, const WireMessage& message) {
    Later([this, &node, message] {
      TellStage(node, [&](stage::Outbox& out) { node.core->OnMessage(message, now_, out); });
    });
  }
  void ToDraft(const WireMessage& message) {
    if (draft_ == nullptr) return;
    Later([this, message] {
      TellDraft([&](draft::Outbox& out) { draft_->core->OnMessage(message, now_, out); });
    });
  }

  template <typename Handler>
  void TellCoordinator(Handler handler) {
    coord::Outbox out;
    handler(out);
    for (coord::Action& action : out) std::visit([this](auto& item) { Carry(item); }, action);
  }
  template <typename Handler>
  void TellStage(StageNode& node, Handler handler) {
    stage::Outbox out;
    handler(out);
    for (stage::Action& action : out) std::visit([&](auto& item) { Carry(node, item); }, action);
  }
  template <typename Handler>
  void TellDraft(Handler handler) {
    draft::Outbox out;
    handler(out);
    for (draft::Action& action : out) std::visit([this](auto& item) { Carry(item); }, action);
  }

  // --- the coordinator's outbox ---

  void Carry(coord::Send& item) {
    if (item.to.role == Role::kDrafter)
      ToDraft(item.message);
    else
      ToStage(*stages_[item.to.rank], item.message);
  }
  void Carry(coord::Deliver& item) {
    LocalAnswer& answer = answers_[index_of_.at(item.sequence)];
    GenerationDelta& delta = item.delta;
    answer.ids.insert(answer.ids.end(), delta.ids.begin(), delta.ids.end());
    answer.logprobs.insert(answer.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    answer.num_drafted = delta.num_drafted;
    answer.num_accepted = delta.num_accepted;
    answer.num_steps = delta.num_steps;
    if (delta.finish == FinishReason::kNone) return;
    answer.finish = delta.finish;
    answer.error = std::string(Message(delta.error));
    --open_;
  }
  void Carry(coord::RequestReplay& item) {
    StageNode& last = *stages_.back();
    const uint64_t peer = AskFor([this](const WireMessage& answer) { LogToCoordinator(answer); });
    Later([this, &last, peer, request = item.request] {
      TellStage(last, [&](stage::Outbox& out) {
        last.core->OnReplayRequest(ReplayPeer(peer), request, now_, out);
      });
    });
  }
  void Carry(coord::FollowVerdicts&) {}

  // --- a stage's outbox ---

  void Carry(StageNode& node, stage::SendControl& item) { ToCoordinator(node.worker, item.message); }
  void Carry(StageNode&, stage::Publish& item) {
    LogToCoordinator(item.message);
    if (stages_.size() > 1) ToStage(*stages_.front(), item.message);
    ToDraft(item.message);
  }
  void Carry(StageNode&, stage::AnswerReplay& item) { Answer(item.peer.value(), item.message); }
  void Carry(StageNode& node, stage::RequestReplay& item) {
    const uint64_t peer = AskFor([this, &node](const WireMessage& answer) { ToStage(node, answer); });
    Later([this, peer, request = item.request] {
      TellDraft([&](draft::Outbox& out) {
        draft_->core->OnReplayRequest(draft::ReplayPeer(peer), request, now_, out);
      });
    });
  }
  void Carry(StageNode& node, stage::Execute& item) {
    Later([this, &node, work = std::make_shared<StageWork>(std::move(item.work))] {
      StatusOr<ExecutionResult> result = node.executor->Run(*work);
      CHECK_OK(result.status()) << "stage " << node.worker.rank;
      TellStage(node, [&](stage::Outbox& out) { node.core->OnExecuted(*std::move(result), now_, out); });
    });
  }
  void Carry(StageNode& node, stage::ForwardFrame& item) {
    StageNode& next = *stages_[node.worker.rank + 1];
    AlignedBuffer rows(item.header.rows.size() * source_.config().hidden_size * sizeof(float));
    std::fill(rows.span().begin(), rows.span().end(), std::byte{0});
    if (const auto payload = node.payloads.Get(item.payload)) {
      std::copy(payload->span().begin(), payload->span().end(), rows.data());
    }
    node.payloads.Free(item.payload);
    const PayloadHandle handle = next.payloads.Put(std::move(rows));
    Later([this, &next, header = item.header, handle] {
      TellStage(next, [&](stage::Outbox& out) { next.core->OnFrame(header, handle, now_, out); });
    });
  }
  void Carry(StageNode& node, stage::FreePayload& item) { node.payloads.Free(item.payload); }
  void Carry(StageNode& node, stage::AdmitSequence& item) { node.executor->Admit(item.admission); }
  void Carry(StageNode& node, stage::ForgetSequence& item) { node.executor->Forget(item.key); }
  void Carry(StageNode& node, stage::RowsDied& item) { node.dead.Mark(item.step, item.key); }
  void Carry(StageNode& node, stage::BuildEdges& item) {
    CHECK_OK(node.executor->Reset(item.config.kv_blocks, item.config.kv_block_size)) << "reset";
    Later([this, &node, generation = item.config.generation] {
      TellStage(node, [&](stage::Outbox& out) { node.core->OnEdgesReady(generation, now_, out); });
    });
  }
  void Carry(StageNode&, stage::FollowProposals&) {}
  void Carry(StageNode& node, stage::Leave& item) {
    CHECK(false) << "stage " << node.worker.rank << " leaves: " << item.reason.ToString();
  }

  // --- the drafter's outbox ---

  void Carry(draft::SendControl& item) { ToCoordinator(draft_->worker, item.message); }
  void Carry(draft::Publish& item) {
    for (const auto& node : stages_) ToStage(*node, item.message);
  }
  void Carry(draft::AnswerReplay& item) { Answer(item.peer.value(), item.message); }
  void Carry(draft::RequestReplay& item) {
    StageNode& last = *stages_.back();
    const uint64_t peer = AskFor([this](const WireMessage& answer) { ToDraft(answer); });
    Later([this, &last, peer, request = item.request] {
      TellStage(last, [&](stage::Outbox& out) {
        last.core->OnReplayRequest(ReplayPeer(peer), request, now_, out);
      });
    });
  }
  void Carry(draft::Propose& item) {
    Later([this, item] {
      auto ids = draft_->proposer->Propose(item.items);
      TellDraft(
          [&](draft::Outbox& out) { draft_->core->OnProposed(item.step, std::move(ids), 1, now_, out); });
    });
  }
  void Carry(draft::AdmitSequence& item) { draft_->proposer->Admit(item.admission); }
  void Carry(draft::ReleaseSequence& item) { draft_->proposer->Release(item.key); }
  void Carry(draft::ResetProposer&) { draft_->proposer->Reset(); }
  void Carry(draft::FollowVerdicts& item) {
    Later([this, generation = item.generation] {
      TellDraft([&](draft::Outbox& out) { draft_->core->OnEdgesReady(generation, now_, out); });
    });
  }
  void Carry(draft::Leave& item) { CHECK(false) << "the drafter leaves: " << item.reason.ToString(); }

  // --- re-requests ---

  uint64_t AskFor(std::function<void(const WireMessage&)> answer) {
    asked_[++asks_] = std::move(answer);
    return asks_;
  }
  void Answer(uint64_t peer, const WireMessage& message) {
    auto node = asked_.extract(peer);
    if (!node.empty()) node.mapped()(message);
  }

  const WeightSource& source_;
  const LocalClusterOptions options_;
  Instant now_ = kStart;
  std::deque<Event> queue_;
  std::unique_ptr<CoordinatorCore> coordinator_;
  std::vector<std::unique_ptr<StageNode>> stages_;
  std::unique_ptr<DraftNode> draft_;
  std::map<uint64_t, std::function<void(const WireMessage&)>> asked_;
  uint64_t asks_ = 0;
  uint64_t sequences_ = 0;
  std::map<SequenceId, size_t> index_of_;
  std::vector<LocalAnswer> answers_;
  size_t open_ = 0;
};

LocalCluster::LocalCluster(const WeightSource& source, const LocalClusterOptions& options)
    : impl_(std::make_unique<Impl>(source, options)) {}
LocalCluster::~LocalCluster() = default;

std::vector<LocalAnswer> LocalCluster::Generate(const std::vector<LocalRequest>& requests) {
  return impl_->Generate(requests);
}

}  // namespace paceline::testing
