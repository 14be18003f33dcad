#include "stage_worker/core/stage_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Generation kGeneration{7, 1};
constexpr Instant kNow = Instant{} + 1h;
const SequenceId kSeq(8);

// The items of one kind in an outbox.
template <typename T>
std::vector<T> Of(const stage::Outbox& out) {
  std::vector<T> found;
  for (const stage::Action& action : out) {
    if (const T* item = std::get_if<T>(&action)) found.push_back(*item);
  }
  return found;
}
template <typename M>
std::vector<M> Sent(const stage::Outbox& out) {
  std::vector<M> found;
  for (const auto& send : Of<stage::SendControl>(out)) {
    if (const M* message = std::get_if<M>(&send.message)) found.push_back(*message);
  }
  return found;
}
std::vector<Verdict> Verdicts(const stage::Outbox& out) {
  std::vector<Verdict> found;
  for (const auto& publish : Of<stage::Publish>(out)) {
    if (const auto* verdict = std::get_if<Verdict>(&publish.message)) found.push_back(*verdict);
  }
  return found;
}

// A stage that serves in generation 7.1, block size 4.
class Stage {
 public:
  Stage(uint32_t index, uint32_t num_stages, bool drafter = false) : core_(Options(index, num_stages)) {
    Reconfigure config;
    config.generation = kGeneration;
    config.num_stages = num_stages;
    config.kv_blocks = 100;
    config.kv_block_size = 4;
    config.num_slots = 2;
    config.launch_window = 2;
    if (drafter) config.proposals.incarnation = Incarnation(99);
    Send(config);
    stage::Outbox out;
    core_.OnEdgesReady(kGeneration, kNow, out);
  }

  stage::Outbox Send(const WireMessage& message, Instant now = kNow) {
    stage::Outbox out;
    core_.OnMessage(message, now, out);
    return out;
  }
  stage::Outbox Frame(const FrameHeader& header, PayloadHandle payload = PayloadHandle(5)) {
    stage::Outbox out;
    core_.OnFrame(header, payload, kNow, out);
    return out;
  }
  // Answers the running frame: `ids` for its one sequence.
  stage::Outbox Executed(StepId step, std::vector<TokenId> ids = {}, uint32_t matched = 0,
                         uint32_t counter = 1) {
    ExecutionResult result;
    result.generation = kGeneration;
    result.step = step;
    result.output = PayloadHandle(6);
    SequenceResult part;
    part.key = {kSeq, counter};
    part.ids = std::move(ids);
    part.num_matched = matched;
    result.sequences.push_back(std::move(part));
    stage::Outbox out;
    core_.OnExecuted(std::move(result), kNow, out);
    return out;
  }
  stage::Outbox Tick(Instant now) {
    stage::Outbox out;
    core_.OnTick(now, out);
    return out;
  }
  StageCore& core() { return core_; }

 private:
  static StageOptions Options(uint32_t index, uint32_t num_stages) {
    StageOptions options;
    options.worker = {Role::kStage, index, 40 + index};
    options.stage = index;
    options.num_stages = num_stages;
    return options;
  }
  StageCore core_;
};

Admission Admit(std::vector<TokenId> ids, uint32_t counter = 1) {
  Admission admission;
  admission.generation = kGeneration;
  admission.sequence = kSeq;
  admission.lineage = {counter, 0};
  admission.prompt_len = static_cast<uint32_t>(ids.size());
  admission.ids = std::move(ids);
  return admission;
}

StepPlan Plan(uint64_t step, Position start, std::vector<TokenId> known, uint32_t draft_len_max = 0,
              Lineage lineage = {1, 0}) {
  StepPlan plan;
  plan.generation = kGeneration;
  plan.step = StepId(step);
  SequencePlan sequence;
  sequence.sequence = kSeq;
  sequence.lineage = lineage;
  sequence.start = start;
  sequence.continuation = known.empty();
  sequence.known_ids = std::move(known);
  sequence.draft_len_max = draft_len_max;
  sequence.awaits_proposal = draft_len_max > 0;
  sequence.blocks = {0, {BlockId(3), BlockId(4), BlockId(5), BlockId(6)}};
  plan.sequences.push_back(sequence);
  return plan;
}

uint64_t DigestOf(const std::vector<TokenId>& ids) {
  uint64_t digest = kEmptyIdDigest;
  for (TokenId id : ids) digest = IdDigest(digest, id);
  return digest;
}

Proposal Propose(uint64_t step, const std::vector<TokenId>& before, std::vector<TokenId> ids) {
  Proposal proposal;
  proposal.generation = kGeneration;
  proposal.step = StepId(step);
  proposal.incarnation = Incarnation(99);
  SequenceProposal entry;
  entry.sequence = kSeq;
  entry.lineage = {1, 0};
  entry.base = static_cast<Position>(before.size());
  entry.base_digest = DigestOf(before);
  entry.ids = std::move(ids);
  proposal.sequences.push_back(entry);
  return proposal;
}

FrameHeader FrameFor(const StepPlan& plan, Position start, const std::vector<TokenId>& ids,
                     uint32_t drafted) {
  FrameHeader header;
  header.generation = plan.generation;
  header.step = plan.step;
  const SequencePlan& planned = plan.sequences[0];
  header.sequences.push_back({planned.sequence, planned.lineage, 0, static_cast<uint32_t>(ids.size()),
                              drafted, planned.draws, true});
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto position = start + static_cast<Position>(i);
    header.rows.push_back({ids[i], position, position, kParentPrevious});
  }
  header.digest = FrameDigest(header);
  return header;
}

// ---------------------------------------------------------------- stage 0

TEST(StageZero, LaunchesAPlanWithItsProposalAndSendsTheFrameOn) {
  Stage stage(0, 2, /*drafter=*/true);

  EXPECT_THAT(Of<stage::Execute>(stage.Send(Plan(1, 0, {5, 9, 2}, 3))), IsEmpty());
  const stage::Outbox launched = stage.Send(Propose(1, {5, 9, 2}, {4, 4}));
  const stage::Outbox done = stage.Executed(StepId(1));

  ASSERT_THAT(Of<stage::Execute>(launched), SizeIs(1));
  EXPECT_THAT(Sent<Launched>(launched), ElementsAre(Launched{kGeneration, StepId(1), false}));
  const auto forward = Of<stage::ForwardFrame>(done);
  ASSERT_THAT(forward, SizeIs(1));
  EXPECT_EQ(forward[0].header.rows.size(), 5u);
  EXPECT_EQ(forward[0].header.sequences[0].num_drafted, 2u);
  EXPECT_EQ(forward[0].payload, PayloadHandle(6));
}

TEST(StageZero, GoesWithoutAProposalThatIsLate) {
  Stage stage(0, 2, /*drafter=*/true);
  stage.Send(Plan(1, 0, {5}, 3));

  const stage::Outbox out = stage.Tick(kNow + 1s);

  EXPECT_THAT(Sent<Launched>(out), ElementsAre(Launched{kGeneration, StepId(1), true}));
}

TEST(StageZero, GoesWithoutAtOnceWhenTheDrafterIsGone) {
  Stage stage(0, 2, /*drafter=*/true);
  stage.Send(Plan(1, 0, {5}, 3));

  const stage::Outbox out = stage.Send(DrafterChange{kGeneration, {}});

  EXPECT_THAT(Sent<Launched>(out), ElementsAre(Launched{kGeneration, StepId(1), true}));
}

TEST(StageZero, P11_DropsAProposalOfAnotherBase) {
  Stage stage(0, 2, /*drafter=*/true);
  stage.Send(Plan(1, 0, {5, 9, 2}, 3));

  const stage::Outbox out = stage.Send(Propose(1, {5, 9, 3}, {4, 4}));

  ASSERT_THAT(Of<stage::Execute>(out), SizeIs(1));
  EXPECT_EQ(Of<stage::Execute>(out)[0].work.rows.size(), 3u);
  EXPECT_EQ(stage.core().stats().proposals_off_base, 1u);
}

TEST(StageZero, P11_AContinuationStartsWhereTheLastFrameEnded) {
  Stage stage(0, 2, /*drafter=*/true);
  stage.Send(Plan(1, 0, {5, 9, 2}, 3));
  stage.Send(Propose(1, {5, 9, 2}, {4}));  // one of three
  stage.Executed(StepId(1));

  stage.Send(Plan(2, 3, {}, 3));
  const stage::Outbox out = stage.Send(Propose(2, {5, 9, 2, 4}, {6, 7}));

  const auto execute = Of<stage::Execute>(out);
  ASSERT_THAT(execute, SizeIs(1));
  ASSERT_EQ(execute[0].work.rows.size(), 2u);
  EXPECT_EQ(execute[0].work.rows[0].position, 4u);
}

TEST(StageZero, P6_AReadyStepOfANewerLineagePassesAndTheOlderOneGoesDead) {
  Stage stage(0, 2, /*drafter=*/true);
  stage.Send(Plan(1, 0, {5, 9, 2}));
  stage.Executed(StepId(1));
  stage.Send(Plan(2, 3, {}, 3));  // waits for its proposal

  const stage::Outbox out = stage.Send(Plan(3, 2, {1}, 0, {1, 1}));
  const stage::Outbox rest = stage.Executed(StepId(3));

  // The older step needs no proposal any more, and no rows.
  std::vector<StepId> launched;
  for (const Launched& l : Sent<Launched>(out)) launched.push_back(l.step);
  EXPECT_THAT(launched, ElementsAre(StepId(2), StepId(3)));
  EXPECT_FALSE(Of<stage::ForwardFrame>(out)[0].header.sequences[0].live);
  EXPECT_THAT(Of<stage::ForwardFrame>(out)[0].header.rows, IsEmpty());
  EXPECT_TRUE(Of<stage::ForwardFrame>(rest)[0].header.sequences[0].live);
}

TEST(StageZero, P6_AHoleInThePlansHoldsBackWhatIsBehindIt) {
  Stage stage(0, 2);
  stage.Send(Plan(1, 0, {5}));
  stage.Executed(StepId(1));

  const stage::Outbox hole = stage.Send(Plan(3, 1, {6}));
  const stage::Outbox filled = stage.Send(Plan(2, 0, {5}, 0, {1, 0}));

  EXPECT_THAT(Sent<Launched>(hole), IsEmpty());
  EXPECT_THAT(Sent<PlanRequest>(hole), ElementsAre(PlanRequest{kGeneration, StepId(2)}));
  EXPECT_THAT(Sent<Launched>(filled), SizeIs(1));
}

TEST(StageZero, P17_AsksForAProposalAgainOnATimer) {
  Stage stage(0, 2, /*drafter=*/true);
  stage.Send(Plan(1, 0, {5}, 3));

  const stage::Outbox out = stage.Tick(kNow + 100ms);

  const auto asked = Of<stage::RequestReplay>(out);
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].request.step, StepId(1));
}

TEST(StageZero, P1_APlanThatComesTwiceIsLaunchedOnce) {
  Stage stage(0, 2);
  stage.Send(Plan(1, 0, {5}));
  stage.Executed(StepId(1));

  EXPECT_THAT(Sent<Launched>(stage.Send(Plan(1, 0, {5}))), IsEmpty());
}

// ---------------------------------------------------------------- later and last stages

TEST(LaterStage, P4_WaitsForThePlanOfAFrameAndAsksForIt) {
  Stage stage(1, 3);
  const StepPlan plan = Plan(1, 0, {5, 9});

  const stage::Outbox at_once = stage.Frame(FrameFor(plan, 0, {5, 9}, 0));
  const stage::Outbox early = stage.Tick(kNow + 20ms);
  const stage::Outbox joined = stage.Send(plan);

  EXPECT_THAT(Of<stage::Execute>(at_once), IsEmpty());
  EXPECT_THAT(Sent<PlanRequest>(at_once), IsEmpty());  // it may only be slower than its frame
  EXPECT_THAT(Sent<PlanRequest>(early), ElementsAre(PlanRequest{kGeneration, StepId(1)}));
  EXPECT_THAT(Of<stage::Execute>(joined), SizeIs(1));
}

TEST(LaterStage, B062_RefusesAFrameWhoseDigestDoesNotFitItsRows) {
  Stage stage(1, 3);
  FrameHeader header = FrameFor(Plan(1, 0, {5, 9}), 0, {5, 9}, 0);
  header.rows[1].id = 8;

  const stage::Outbox out = stage.Frame(header);

  ASSERT_THAT(Of<stage::Leave>(out), SizeIs(1));
  EXPECT_THAT(std::string(Message(Of<stage::Leave>(out)[0].reason)), testing::HasSubstr("digest"));
}

TEST(LaterStage, SkipsDeadRowsButSendsTheFrameOn) {
  Stage stage(1, 3);
  const StepPlan plan = Plan(1, 0, {5, 9});
  stage.Send(plan);
  stage.Send(Cancel{kGeneration, kSeq, {2, 0}});

  const stage::Outbox out = stage.Frame(FrameFor(plan, 0, {5, 9}, 0));

  EXPECT_THAT(Of<stage::Execute>(out), IsEmpty());
  const auto forward = Of<stage::ForwardFrame>(out);
  ASSERT_THAT(forward, SizeIs(1));
  EXPECT_FALSE(forward[0].header.sequences[0].live);
  EXPECT_EQ(forward[0].header.rows.size(), 2u);
  EXPECT_EQ(forward[0].payload, PayloadHandle(0));
  EXPECT_EQ(forward[0].header.digest, FrameDigest(forward[0].header));
}

TEST(LaterStage, DropsAndCountsMessagesOfAnotherGeneration) {
  Stage stage(1, 3);
  StepPlan plan = Plan(1, 0, {5});
  plan.generation.counter = 2;

  stage.Send(plan);

  EXPECT_EQ(stage.core().stats().plans_pending, 0u);
  EXPECT_EQ(stage.core().stats().other_generation, 1u);
}

TEST(LaterStage, P16_ConfirmsAReconfigurationOnlyWhenTheDeviceIsIdle) {
  Stage stage(1, 3);
  const StepPlan plan = Plan(1, 0, {5});
  stage.Send(plan);
  stage.Frame(FrameFor(plan, 0, {5}, 0));
  Reconfigure config;
  config.generation = {7, 2};
  config.num_stages = 3;
  stage.Send(config);
  stage::Outbox ready;
  stage.core().OnEdgesReady({7, 2}, kNow, ready);

  const stage::Outbox idle = stage.Executed(StepId(1));

  EXPECT_THAT(Sent<ReconfigureDone>(ready), IsEmpty());
  EXPECT_THAT(Sent<ReconfigureDone>(idle), SizeIs(1));
  EXPECT_THAT(Of<stage::ForwardFrame>(idle), IsEmpty());
}

TEST(LastStage, B059_ARefusalRaisesTheLineageAndSaysWhereItBegins) {
  Stage stage(1, 2);
  stage.Send(Admit({5, 9, 2}));
  const StepPlan plan = Plan(1, 0, {5, 9, 2}, 3);
  stage.Send(plan);
  stage.Frame(FrameFor(plan, 0, {5, 9, 2, 7, 8, 9}, 3));

  const auto verdicts = Verdicts(stage.Executed(StepId(1), {7, 4}, 1));

  ASSERT_THAT(verdicts, SizeIs(1));
  const SequenceVerdict& verdict = verdicts[0].sequences[0];
  EXPECT_EQ(verdict.first_position, 3u);
  EXPECT_THAT(verdict.ids, ElementsAre(7, 4));
  EXPECT_EQ(verdict.num_accepted, 1u);
  EXPECT_EQ(verdict.lineage, (Lineage{1, 1}));
  EXPECT_EQ(verdict.rows_end, 4u);
}

TEST(LastStage, WorkBehindARefusalIsDeadAndStillHasItsVerdict) {
  Stage stage(1, 2);
  stage.Send(Admit({5, 9, 2}));
  const StepPlan plan = Plan(1, 0, {5, 9, 2}, 2);
  const StepPlan ahead = Plan(2, 3, {}, 2);
  stage.Send(plan);
  stage.Send(ahead);
  stage.Frame(FrameFor(plan, 0, {5, 9, 2, 7, 8}, 2));
  stage.Executed(StepId(1), {6}, 0);

  const stage::Outbox out = stage.Frame(FrameFor(ahead, 5, {1, 1}, 2));

  EXPECT_THAT(Of<stage::Execute>(out), IsEmpty());
  const auto verdicts = Verdicts(out);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_FALSE(verdicts[0].sequences[0].live);
  EXPECT_THAT(verdicts[0].sequences[0].ids, IsEmpty());
}

TEST(LastStage, AContinuationThatGuessedTheBonusIdGoesOn) {
  Stage stage(1, 2);
  stage.Send(Admit({5, 9, 2}));
  const StepPlan plan = Plan(1, 0, {5, 9, 2}, 1);
  const StepPlan ahead = Plan(2, 3, {}, 2);
  stage.Send(plan);
  stage.Send(ahead);
  stage.Frame(FrameFor(plan, 0, {5, 9, 2, 7}, 1));
  stage.Executed(StepId(1), {7, 8}, 1);

  const stage::Outbox started = stage.Frame(FrameFor(ahead, 4, {8, 3}, 2));
  const auto verdicts = Verdicts(stage.Executed(StepId(2), {3, 6}, 1));

  ASSERT_THAT(Of<stage::Execute>(started), SizeIs(1));
  EXPECT_EQ(Of<stage::Execute>(started)[0].work.sequences[0].draw_position, 5u);
  ASSERT_THAT(verdicts, SizeIs(1));
  // P8: the row that repeats the bonus id adds nothing of its own.
  EXPECT_EQ(verdicts[0].sequences[0].first_position, 5u);
  EXPECT_THAT(verdicts[0].sequences[0].ids, ElementsAre(3, 6));
  EXPECT_EQ(verdicts[0].sequences[0].num_accepted, 2u);
  EXPECT_EQ(verdicts[0].sequences[0].lineage, (Lineage{1, 0}));
}

TEST(LastStage, AContinuationWithAWrongBonusIdIsRefusedAtTheDoor) {
  Stage stage(1, 2);
  stage.Send(Admit({5, 9, 2}));
  const StepPlan plan = Plan(1, 0, {5, 9, 2}, 1);
  const StepPlan ahead = Plan(2, 3, {}, 2);
  stage.Send(plan);
  stage.Send(ahead);
  stage.Frame(FrameFor(plan, 0, {5, 9, 2, 7}, 1));
  stage.Executed(StepId(1), {7, 8}, 1);

  const stage::Outbox out = stage.Frame(FrameFor(ahead, 4, {1, 3}, 2));

  EXPECT_THAT(Of<stage::Execute>(out), IsEmpty());
  ASSERT_THAT(Verdicts(out), SizeIs(1));
  EXPECT_EQ(Verdicts(out)[0].sequences[0].lineage, (Lineage{1, 1}));
  EXPECT_EQ(Verdicts(out)[0].sequences[0].num_drafted, 2u);
}

TEST(LastStage, P17_AnswersForAVerdictOrSaysNotYet) {
  Stage stage(0, 1);
  stage.Send(Admit({5}));
  stage.Send(Plan(1, 0, {5}));
  stage.Executed(StepId(1), {6});

  stage::Outbox out;
  stage.core().OnReplayRequest(ReplayPeer(3), {kGeneration, StepId(1)}, kNow, out);
  stage.core().OnReplayRequest(ReplayPeer(3), {kGeneration, StepId(2)}, kNow, out);

  const auto answers = Of<stage::AnswerReplay>(out);
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_TRUE(std::holds_alternative<Verdict>(answers[0].message));
  EXPECT_EQ(std::get<ReplayAnswer>(answers[1].message).state, ReplayState::kNotYet);
}

TEST(LastStage, P5_ReleaseForgetsOneAttemptAndKeepsTheNext) {
  Stage stage(0, 1);
  stage.Send(Admit({5}, 1));
  stage.Send(Admit({5}, 2));

  const stage::Outbox out = stage.Send(Release{kGeneration, kSeq, 1});

  ASSERT_THAT(Of<stage::ForgetSequence>(out), SizeIs(1));
  EXPECT_EQ(Of<stage::ForgetSequence>(out)[0].key, (SequenceKey{kSeq, 1}));
  EXPECT_EQ(stage.core().stats().sequences_known, 1u);
}

}  // namespace
}  // namespace paceline
