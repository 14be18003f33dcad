#include "draft_worker/core/draft_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const SequenceId kSeq(8);
const SequenceKey kKey{kSeq, 1};

DraftChain ChainOf(std::vector<TokenId> ids) {
  Admission admission;
  admission.sequence = kSeq;
  admission.lineage = {1, 0};
  admission.prompt_len = static_cast<uint32_t>(ids.size());
  admission.ids = std::move(ids);
  return DraftChain(admission);
}

SequencePlan Known(Position start, std::vector<TokenId> ids, uint32_t draft_len_max,
                   Lineage lineage = {1, 0}) {
  SequencePlan plan;
  plan.sequence = kSeq;
  plan.lineage = lineage;
  plan.start = start;
  plan.known_ids = std::move(ids);
  plan.awaits_proposal = true;
  plan.draft_len_max = draft_len_max;
  return plan;
}

SequencePlan RunAhead(uint32_t draft_len_max) {
  SequencePlan plan = Known(0, {}, draft_len_max);
  plan.continuation = true;
  return plan;
}

SequenceVerdict Drawn(Position first, std::vector<TokenId> ids, Lineage lineage, uint32_t drafted,
                      Position rows_end) {
  SequenceVerdict verdict;
  verdict.sequence = kSeq;
  verdict.lineage = lineage;
  verdict.first_position = first;
  verdict.ids = std::move(ids);
  verdict.num_drafted = drafted;
  verdict.rows_end = rows_end;
  return verdict;
}

TEST(DraftChain, DraftsBehindTheKnownIds) {
  DraftChain chain = ChainOf({5, 9, 2});

  const auto request = chain.Prepare(Known(0, {5, 9, 2}, 3));

  ASSERT_TRUE(request);
  EXPECT_EQ(request->base, 3u);
  EXPECT_EQ(request->need, 3u);
  EXPECT_EQ(chain.ItemFor(*request, kKey).keep, 3u);
  EXPECT_THAT(chain.Complete(*request, StepId(1), {4, 4, 8}), ElementsAre(4, 4, 8));
}

TEST(DraftChain, AContinuationGoesOnFromItsOwnGuess) {
  DraftChain chain = ChainOf({5, 9, 2});
  chain.Complete(*chain.Prepare(Known(0, {5, 9, 2}, 3)), StepId(1), {4, 4, 8});

  const auto request = chain.Prepare(RunAhead(2));

  ASSERT_TRUE(request);
  EXPECT_EQ(request->base, 6u);
  EXPECT_EQ(chain.ItemFor(*request, kKey).keep, 6u);
  EXPECT_THAT(chain.Complete(*request, StepId(2), {1, 0}), ElementsAre(1, 0));
}

TEST(DraftChain, ARefusalCutsTheGuessAndTheProposersCopy) {
  DraftChain chain = ChainOf({5, 9, 2});
  chain.Complete(*chain.Prepare(Known(0, {5, 9, 2}, 3)), StepId(1), {4, 4, 8});

  EXPECT_TRUE(chain.Apply(StepId(1), Drawn(3, {4, 7}, {1, 1}, 3, 4)));
  const auto request = chain.Prepare(Known(4, {7}, 1, {1, 1}));

  ASSERT_TRUE(request);
  EXPECT_EQ(request->base, 5u);
  const ProposeItem item = chain.ItemFor(*request, kKey);
  EXPECT_EQ(item.keep, 4u);
  EXPECT_THAT(item.append, ElementsAre(7));
}

TEST(DraftChain, PlansOfAnOldLineageAreDead) {
  DraftChain chain = ChainOf({5, 9, 2});
  chain.NoteLineage({1, 1});

  EXPECT_EQ(chain.ReadyFor(RunAhead(2)), DraftChain::Ready::kDead);
}

TEST(DraftChain, APlanAheadOfTheVerdictsWaits) {
  DraftChain chain = ChainOf({5, 9, 2});

  EXPECT_EQ(chain.ReadyFor(Known(5, {1}, 2)), DraftChain::Ready::kWaits);
}

TEST(DraftChain, ThePlansNewestIdIsEnoughWhenItsVerdictIsStillOnTheWay) {
  DraftChain chain = ChainOf({5, 9, 2});

  const SequencePlan plan = Known(3, {7}, 2);
  EXPECT_EQ(chain.ReadyFor(plan), DraftChain::Ready::kYes);
  EXPECT_EQ(chain.Prepare(plan)->base, 4u);
  EXPECT_TRUE(chain.Apply(StepId(1), Drawn(3, {7}, {1, 0}, 0, 3)));
}

TEST(DraftChain, AVerdictWithoutDraftsCorrectsWhereStageZeroIs) {
  DraftChain chain = ChainOf({5, 9, 2});
  chain.Complete(*chain.Prepare(Known(0, {5, 9, 2}, 3)), StepId(1), {4, 4, 8});

  chain.Apply(StepId(1), Drawn(3, {4}, {1, 0}, 0, 3));  // stage 0 went without
  const auto request = chain.Prepare(RunAhead(2));

  ASSERT_TRUE(request);
  EXPECT_EQ(request->base, 3u);  // the next row repeats the drawn id 4
  EXPECT_THAT(chain.Complete(*request, StepId(2), {}), ElementsAre(4, 4));
}

TEST(DraftChain, P8_AVerdictThatDoesNotBeginAtTheEndBreaksIt) {
  DraftChain chain = ChainOf({5, 9, 2});

  EXPECT_FALSE(chain.Apply(StepId(1), Drawn(2, {2}, {1, 0}, 0, 2)));
  EXPECT_EQ(chain.ReadyFor(Known(2, {2}, 2)), DraftChain::Ready::kDead);
}

TEST(DraftChain, TrueIdsThatCameWhileTheProposerWorkedWin) {
  DraftChain chain = ChainOf({5, 9, 2});
  const auto request = chain.Prepare(Known(0, {5, 9, 2}, 3));
  chain.Apply(StepId(1), Drawn(3, {6}, {1, 0}, 0, 3));

  EXPECT_THAT(chain.Complete(*request, StepId(2), {4, 4, 8}), ElementsAre(6));
}

}  // namespace
}  // namespace paceline
