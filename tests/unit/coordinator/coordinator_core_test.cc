// The coordinator alone: the test plays the workers and answers plans by hand.
#include "coordinator/coordinator_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "coordinator/membership/membership_core.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Instant kNow = Instant{} + 1h;

class Cluster {
 public:
  explicit Cluster(CoordinatorOptions options, uint32_t kv_blocks = 64, bool drafter = false)
      : options_(options), core_(std::move(options)) {
    for (uint32_t rank = 0; rank < options_.num_stages; ++rank) SayHello(Stage(rank), kv_blocks);
    for (uint32_t rank = 0; rank < options_.num_stages; ++rank) {
      Tell(Stage(rank), ReconfigureDone{core_.generation()});
    }
    Tell(Stage(0), ProbeSeen{core_.generation(), verdict_source()});
    Log(Probe{core_.generation(), verdict_source()});
    if (!drafter) return;
    SayHello(Drafter(), 0);
    Tell(Drafter(), ReconfigureDone{core_.generation()});
    Tell(Drafter(), ProbeSeen{core_.generation(), verdict_source()});
    for (uint32_t rank = 0; rank < options_.num_stages; ++rank) {
      Tell(Stage(rank), ProbeSeen{core_.generation(), Incarnation(Drafter().boot_nonce)});
    }
  }

  static WorkerId Stage(uint32_t rank) { return {Role::kStage, rank, 10 + rank}; }
  static WorkerId Drafter() { return {Role::kDrafter, 0, 30}; }
  Incarnation verdict_source() const { return Incarnation(10 + options_.num_stages - 1); }

  void SayHello(const WorkerId& worker, uint32_t kv_blocks) {
    Hello hello;
    hello.worker = worker;
    hello.fingerprint.pipeline_size = options_.num_stages;
    hello.host = "here";
    hello.kv_blocks = kv_blocks;
    hello.kv_block_size = 4;
    Tell(worker, hello);
  }
  void Tell(const WorkerId& from, const WireMessage& message) {
    coord::Outbox out;
    core_.OnMessage(from, message, kNow, out);
    Sort(out);
  }
  void Log(const WireMessage& message) {
    coord::Outbox out;
    core_.OnLogMessage(message, kNow, out);
    Sort(out);
  }
  Status Submit(uint64_t id, std::vector<TokenId> prompt, uint32_t max_tokens) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.sampling.max_tokens = max_tokens;
    request.sampling.stop_token_ids = request.sampling.eos_token_ids = {2};
    coord::Outbox out;
    const Status status = core_.OnSubmit(SequenceId(id), std::move(request), kNow, out);
    Sort(out);
    return status;
  }
  void Cancel(uint64_t id) {
    coord::Outbox out;
    core_.OnCancel(SequenceId(id), kNow, out);
    Sort(out);
  }

  // The verdict of a plan: ids per sequence, refusing the drafts that differ.
  Verdict VerdictOf(const StepPlan& plan, const std::vector<std::vector<TokenId>>& ids, uint32_t drafted = 0,
                    bool refused = false) {
    Verdict verdict;
    verdict.generation = plan.generation;
    verdict.step = plan.step;
    verdict.log_sequence = ++log_sequence_;
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      const SequencePlan& planned = plan.sequences[i];
      SequenceVerdict part;
      part.sequence = planned.sequence;
      part.lineage = planned.lineage;
      if (refused) ++part.lineage.last_stage;
      part.first_position = planned.start + static_cast<Position>(planned.known_ids.size());
      part.ids = ids[i];
      part.num_drafted = drafted;
      part.num_accepted = part.ids.empty() ? 0 : static_cast<uint32_t>(part.ids.size()) - 1;
      part.rows_end = part.first_position + part.num_accepted;
      verdict.sequences.push_back(std::move(part));
    }
    return verdict;
  }
  // Takes the plans that stage 0 got since the last call.
  std::vector<StepPlan> TakePlans() { return std::exchange(plans_, {}); }
  std::vector<coord::Deliver> TakeDeliveries() { return std::exchange(deliveries_, {}); }
  std::vector<coord::Send> TakeOthers() { return std::exchange(others_, {}); }
  CoordinatorCore& core() { return core_; }

 private:
  void Sort(const coord::Outbox& out) {
    for (const coord::Action& action : out) {
      if (const auto* deliver = std::get_if<coord::Deliver>(&action)) deliveries_.push_back(*deliver);
      const auto* send = std::get_if<coord::Send>(&action);
      if (send == nullptr) continue;
      const auto* plan = std::get_if<StepPlan>(&send->message);
      if (plan == nullptr) {
        others_.push_back(*send);
      } else if (send->to == Stage(0)) {
        plans_.push_back(*plan);
      }
    }
  }

  CoordinatorOptions options_;
  CoordinatorCore core_;
  uint64_t log_sequence_ = 0;
  std::vector<StepPlan> plans_;
  std::vector<coord::Deliver> deliveries_;
  std::vector<coord::Send> others_;
};

CoordinatorOptions TwoStages() {
  CoordinatorOptions options;
  options.num_stages = 2;
  options.fingerprint.pipeline_size = 2;
  options.max_model_len = 64;
  return options;
}

TEST(Coordinator, PrefillsDecodesAndEndsAtTheStopId) {
  Cluster cluster(TwoStages());
  ASSERT_TRUE(cluster.Submit(1, {5, 9, 7}, 10).ok());
  const auto prefill = cluster.TakePlans();
  ASSERT_THAT(prefill, SizeIs(1));
  EXPECT_THAT(prefill[0].sequences[0].known_ids, ElementsAre(5, 9, 7));

  cluster.Log(cluster.VerdictOf(prefill[0], {{8}}));
  const auto decode = cluster.TakePlans();
  ASSERT_THAT(decode, SizeIs(1));
  EXPECT_EQ(decode[0].sequences[0].start, 3u);
  EXPECT_THAT(decode[0].sequences[0].known_ids, ElementsAre(8));
  cluster.Log(cluster.VerdictOf(decode[0], {{2}}));

  const auto deltas = cluster.TakeDeliveries();
  ASSERT_THAT(deltas, SizeIs(2));
  EXPECT_THAT(deltas[0].delta.ids, ElementsAre(8));
  EXPECT_EQ(deltas[1].delta.finish, FinishReason::kStop);
  EXPECT_TRUE(cluster.core().idle());
}

TEST(Coordinator, B064_ASequenceIsNotPlannedAgainBeforeItsTokenIsBack) {
  Cluster cluster(TwoStages());
  ASSERT_TRUE(cluster.Submit(1, {5, 9, 7}, 10).ok());

  EXPECT_THAT(cluster.TakePlans(), SizeIs(1));  // though two slots are free
}

TEST(Coordinator, B019_DraftLengthIsClampedToWhatIsLeft) {
  CoordinatorOptions options = TwoStages();
  options.num_speculative_tokens = 5;
  Cluster cluster(options, 64, /*drafter=*/true);
  ASSERT_TRUE(cluster.Submit(1, {5, 9, 7}, 4).ok());
  const auto prefill = cluster.TakePlans();
  ASSERT_THAT(prefill, SizeIs(1));
  EXPECT_TRUE(prefill[0].sequences[0].awaits_proposal);
  EXPECT_EQ(prefill[0].sequences[0].draft_len_max, 3u);  // four to come, the last one needs no row

  cluster.Log(cluster.VerdictOf(prefill[0], {{8, 9}}, 3, /*refused=*/true));
  const auto decode = cluster.TakePlans();
  ASSERT_THAT(decode, SizeIs(1));
  EXPECT_EQ(decode[0].sequences[0].lineage, (Lineage{1, 1}));
  EXPECT_EQ(decode[0].sequences[0].draft_len_max, 1u);
}

TEST(Coordinator, B020_AnAnswerEndsWithTheContext) {
  CoordinatorOptions options = TwoStages();
  options.max_model_len = 16;
  options.num_speculative_tokens = 3;
  Cluster cluster(options, 64, /*drafter=*/true);
  ASSERT_TRUE(cluster.Submit(1, std::vector<TokenId>(14, 5), 100).ok());
  const auto plans = cluster.TakePlans();
  ASSERT_THAT(plans, SizeIs(1));
  EXPECT_EQ(plans[0].sequences[0].draft_len_max, 1u);

  cluster.Log(cluster.VerdictOf(plans[0], {{8, 9}}, 1));

  const auto deltas = cluster.TakeDeliveries();
  ASSERT_THAT(deltas, SizeIs(1));
  EXPECT_THAT(deltas[0].delta.ids, ElementsAre(8, 9));
  EXPECT_EQ(deltas[0].delta.finish, FinishReason::kLength);
}

TEST(Coordinator, B023_CountersUseTheTrimmedRun) {
  CoordinatorOptions options = TwoStages();
  options.num_speculative_tokens = 3;
  Cluster cluster(options, 64, /*drafter=*/true);
  ASSERT_TRUE(cluster.Submit(1, {5, 9, 7}, 30).ok());

  cluster.Log(cluster.VerdictOf(cluster.TakePlans()[0], {{8, 2, 6, 6}}, 3));

  const auto deltas = cluster.TakeDeliveries();
  ASSERT_THAT(deltas, SizeIs(1));
  EXPECT_THAT(deltas[0].delta.ids, ElementsAre(8, 2));
  EXPECT_EQ(deltas[0].delta.num_accepted, 2u);
  EXPECT_EQ(cluster.core().stats().generation_tokens, 2u);
  EXPECT_EQ(cluster.core().stats().wasted_past_end, 2u);
}

TEST(Coordinator, B095_PromptsGoInChunksThatFollowEachOtherIntoThePipe) {
  CoordinatorOptions options = TwoStages();
  options.max_num_batched_tokens = 2;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Submit(1, {5, 9, 7, 8, 6}, 10).ok());

  const auto plans = cluster.TakePlans();

  ASSERT_THAT(plans, SizeIs(2));  // two slots
  EXPECT_THAT(plans[0].sequences[0].known_ids, ElementsAre(5, 9));
  EXPECT_FALSE(plans[0].sequences[0].draws);
  EXPECT_TRUE(plans[1].sequences[0].continuation);
  EXPECT_EQ(plans[1].sequences[0].start, 2u);
  EXPECT_THAT(plans[1].sequences[0].known_ids, ElementsAre(7, 8));
}

TEST(Coordinator, RunsAheadOnlyWithFreeSlotsAndADrafter) {
  CoordinatorOptions options = TwoStages();
  options.num_slots = 3;
  options.launch_window = 3;
  options.num_speculative_tokens = 2;
  options.frames_in_flight_max = 3;
  Cluster cluster(options, 64, /*drafter=*/true);

  ASSERT_TRUE(cluster.Submit(1, {5, 9, 7}, 30).ok());

  const auto plans = cluster.TakePlans();
  ASSERT_THAT(plans, SizeIs(3));
  EXPECT_FALSE(plans[0].sequences[0].continuation);
  EXPECT_TRUE(plans[1].sequences[0].continuation);
  EXPECT_THAT(plans[1].sequences[0].known_ids, IsEmpty());
  EXPECT_EQ(plans[1].sequences[0].start, 3u);  // P11: the least it can be
}

TEST(Coordinator, P8_VerdictsAreAppliedInLogOrder) {
  CoordinatorOptions options = TwoStages();
  options.max_num_batched_tokens = 2;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Submit(1, {5, 9, 7, 8}, 10).ok());
  const auto plans = cluster.TakePlans();
  ASSERT_THAT(plans, SizeIs(2));
  const Verdict first = cluster.VerdictOf(plans[0], {{}});
  const Verdict second = cluster.VerdictOf(plans[1], {{3}});

  cluster.Log(second);
  EXPECT_THAT(cluster.TakeDeliveries(), IsEmpty());
  cluster.Log(first);
  cluster.Log(first);  // and twice does nothing

  ASSERT_THAT(cluster.TakeDeliveries(), SizeIs(1));
}

TEST(Coordinator, P5_ReleaseFollowsTheLastVerdictOfACancelledSequence) {
  Cluster cluster(TwoStages());
  ASSERT_TRUE(cluster.Submit(1, {5, 9, 7}, 10).ok());
  const auto plans = cluster.TakePlans();
  cluster.TakeOthers();
  const auto releases = [](const std::vector<coord::Send>& sent) {
    return std::count_if(sent.begin(), sent.end(),
                         [](const coord::Send& s) { return std::holds_alternative<Release>(s.message); });
  };

  cluster.Cancel(1);
  EXPECT_EQ(cluster.TakeDeliveries().at(0).delta.finish, FinishReason::kCancelled);
  EXPECT_EQ(releases(cluster.TakeOthers()), 0);
  EXPECT_FALSE(cluster.core().idle());
  cluster.Log(cluster.VerdictOf(plans[0], {{3}}));

  EXPECT_EQ(releases(cluster.TakeOthers()), 2);
  EXPECT_THAT(cluster.TakeDeliveries(), IsEmpty());
  EXPECT_TRUE(cluster.core().idle());
}

TEST(Coordinator, B089_AnOlderSequenceTakesTheBlocksOfAYoungerOne) {
  CoordinatorOptions options = TwoStages();
  options.max_model_len = 16;
  Cluster cluster(options, /*kv_blocks=*/4);
  ASSERT_TRUE(cluster.Submit(1, {5, 5, 5, 5, 5, 5, 5}, 9).ok());
  ASSERT_TRUE(cluster.Submit(2, {6, 6, 6}, 9).ok());

  for (int i = 0; i < 20 && cluster.core().stats().finished_length < 2; ++i) {
    for (const StepPlan& plan : cluster.TakePlans()) {
      std::vector<std::vector<TokenId>> ids;
      for (const SequencePlan& s : plan.sequences)
        ids.push_back(s.draws ? std::vector<TokenId>{8} : std::vector<TokenId>{});
      cluster.Log(cluster.VerdictOf(plan, ids));
    }
  }

  EXPECT_EQ(cluster.core().stats().finished_length, 2u);
  EXPECT_GE(cluster.core().stats().preemptions, 1u);
  EXPECT_TRUE(cluster.core().idle());
}

TEST(Coordinator, ARequestThatCanNeverFitIsRefusedWithNumbers) {
  Cluster cluster(TwoStages(), /*kv_blocks=*/4);

  const Status status = cluster.Submit(1, std::vector<TokenId>(20, 5), 40);

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("need 15 blocks"));
}

TEST(Coordinator, AFullQueueRefuses) {
  CoordinatorOptions options = TwoStages();
  options.max_num_seqs = 1;
  options.max_queued_requests = 1;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Submit(1, {5}, 4).ok());
  ASSERT_TRUE(cluster.Submit(2, {5}, 4).ok());

  EXPECT_EQ(cluster.Submit(3, {5}, 4).code(), absl::StatusCode::kResourceExhausted);
}

TEST(Coordinator, ALostStageEndsRequestsWithItsName) {
  Cluster cluster(TwoStages());
  ASSERT_TRUE(cluster.Submit(1, {5}, 4).ok());

  coord::Outbox out;
  cluster.core().OnWorkerLost(Cluster::Stage(1), "killed", kNow, out);

  const auto deliver = std::find_if(out.begin(), out.end(), [](const coord::Action& a) {
    return std::holds_alternative<coord::Deliver>(a);
  });
  ASSERT_NE(deliver, out.end());
  EXPECT_THAT(std::string(Message(std::get<coord::Deliver>(*deliver).delta.error)), HasSubstr("stage 1"));
  EXPECT_THAT(std::string(Message(cluster.core().Readiness())), HasSubstr("stage 1"));
}

TEST(Coordinator, ALostDrafterOnlyTurnsSpeculationOff) {
  CoordinatorOptions options = TwoStages();
  options.num_speculative_tokens = 3;
  Cluster cluster(options, 64, /*drafter=*/true);
  ASSERT_TRUE(cluster.core().drafter_ready());

  cluster.Tell(Cluster::Drafter(), Goodbye{"tired"});
  ASSERT_TRUE(cluster.Submit(1, {5}, 4).ok());

  const auto plans = cluster.TakePlans();
  ASSERT_THAT(plans, SizeIs(1));
  EXPECT_FALSE(plans[0].sequences[0].awaits_proposal);
  EXPECT_TRUE(cluster.core().Readiness().ok());
}

TEST(Coordinator, SilenceOfAWorkerIsALoss) {
  Cluster cluster(TwoStages());

  coord::Outbox out;
  cluster.core().OnTick(kNow + 3s, out);

  EXPECT_FALSE(cluster.core().Readiness().ok());
}

TEST(Membership, AMismatchNamesTheFieldBothValuesAndARemedy) {
  Fingerprint want;
  want.model_digest = "aaa";
  Fingerprint found = want;
  found.model_digest = "bbb";

  const std::string message(Message(CompareFingerprints(want, found, Role::kStage)));

  EXPECT_THAT(message, HasSubstr("model_digest"));
  EXPECT_THAT(message, HasSubstr("aaa"));
  EXPECT_THAT(message, HasSubstr("bbb"));
  EXPECT_THAT(message, HasSubstr("same model files"));
  EXPECT_TRUE(CompareFingerprints(want, found, Role::kDrafter).ok());
}

TEST(Membership, EveryFieldOfAStageIsCompared) {
  Fingerprint want;
  want.build_id = want.model_digest = want.tokenizer_digest = want.dtype = want.numerics_class = "x";
  want.num_layers = 30;
  want.layers_per_stage = {15, 15};
  const auto differs = [&](auto change) {
    Fingerprint found = want;
    change(found);
    return !CompareFingerprints(want, found, Role::kStage).ok();
  };

  EXPECT_TRUE(CompareFingerprints(want, want, Role::kStage).ok());
  EXPECT_TRUE(differs([](Fingerprint& f) { f.protocol_major = 9; }));
  EXPECT_TRUE(differs([](Fingerprint& f) { f.build_id = "y"; }));
  EXPECT_TRUE(differs([](Fingerprint& f) { f.tokenizer_digest = "y"; }));
  EXPECT_TRUE(differs([](Fingerprint& f) { f.dtype = "y"; }));
  EXPECT_TRUE(differs([](Fingerprint& f) { f.numerics_class = "y"; }));
  EXPECT_TRUE(differs([](Fingerprint& f) { f.pipeline_size = 9; }));
  EXPECT_TRUE(differs([](Fingerprint& f) { f.tensor_size = 9; }));
  EXPECT_TRUE(differs([](Fingerprint& f) { f.num_layers = 9; }));
  EXPECT_TRUE(differs([](Fingerprint& f) { f.layers_per_stage = {14, 16}; }));
}

}  // namespace
}  // namespace paceline
