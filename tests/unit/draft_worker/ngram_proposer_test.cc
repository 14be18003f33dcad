#include "draft_worker/ngram_proposer.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Ids = std::vector<TokenId>;

TEST(NgramProposer, CopiesWhatFollowedTheLastOccurrence) {
  EXPECT_EQ(LookUpNgram(Ids{5, 9, 2, 7, 5, 9}, {.min_n = 1, .max_n = 3}, 3), (Ids{2, 7, 5}));
}

TEST(NgramProposer, PrefersTheLongestMatchOverTheMostRecent) {
  // "1 2" occurs at 0, followed by 3; "2" alone occurs more recently, followed by 8.
  EXPECT_EQ(LookUpNgram(Ids{1, 2, 3, 4, 2, 8, 1, 2}, {.min_n = 1, .max_n = 3}, 1), (Ids{3}));
}

TEST(NgramProposer, OfEqualMatchesTakesTheMostRecent) {
  EXPECT_EQ(LookUpNgram(Ids{1, 2, 3, 1, 2, 4, 1, 2}, {.min_n = 2, .max_n = 2}, 1), (Ids{4}));
}

TEST(NgramProposer, GoesOnThroughItselfWhereTheCopyEnds) {
  EXPECT_EQ(LookUpNgram(Ids{7, 7}, {.min_n = 1, .max_n = 2}, 4), (Ids{7, 7, 7, 7}));
  EXPECT_EQ(LookUpNgram(Ids{1, 2, 1, 2}, {.min_n = 2, .max_n = 2}, 5), (Ids{1, 2, 1, 2, 1}));
}

TEST(NgramProposer, DraftsNothingWithoutAMatchOfTheShortestLength) {
  EXPECT_TRUE(LookUpNgram(Ids{1, 2, 3}, {.min_n = 1, .max_n = 3}, 4).empty());
  EXPECT_TRUE(LookUpNgram(Ids{1, 2, 9, 2}, {.min_n = 2, .max_n = 3}, 4).empty());
  EXPECT_TRUE(LookUpNgram(Ids{}, {.min_n = 1, .max_n = 3}, 4).empty());
  EXPECT_TRUE(LookUpNgram(Ids{4}, {.min_n = 1, .max_n = 3}, 4).empty());
}

TEST(NgramProposer, KeepsItsGuessUntilAnItemCutsIt) {
  NgramProposer proposer({.min_n = 1, .max_n = 3});
  Admission admission;
  admission.sequence = SequenceId(8);
  admission.lineage = {1, 0};
  admission.ids = {1, 2, 3, 1, 2};
  proposer.Admit(admission);
  const SequenceKey key{SequenceId(8), 1};

  const auto first = proposer.Propose(std::vector<ProposeItem>{
      {.key = key, .keep = 5, .append = {}, .committed_len = 5, .draft_len_max = 2}});
  const auto ahead = proposer.Propose(std::vector<ProposeItem>{
      {.key = key, .keep = 7, .append = {}, .committed_len = 5, .draft_len_max = 2}});
  const auto refused = proposer.Propose(std::vector<ProposeItem>{
      {.key = key, .keep = 5, .append = {1}, .committed_len = 6, .draft_len_max = 1}});

  EXPECT_EQ(first[0], (Ids{3, 1}));
  EXPECT_EQ(ahead[0], (Ids{2, 3}));
  EXPECT_EQ(refused[0], (Ids{2}));
}

}  // namespace
}  // namespace paceline
