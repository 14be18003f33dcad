#include "common/decoder/logit_rules.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

constexpr float kMasked = -std::numeric_limits<float>::infinity();

std::vector<float> Apply(const SamplingParams& params, const TokenHistory& history, std::vector<float> raw) {
  std::vector<float> out(raw.size());
  ApplyLogitRules(params, history, raw, out);
  return out;
}

TEST(LogitRules, PenaltiesOfTheWorkedExample) {
  SamplingParams params;
  params.repetition_penalty = 1.25f;
  params.frequency_penalty = 0.5f;
  params.presence_penalty = 0.25f;
  const std::vector<TokenId> ids = {0, 1, 0, 0};
  const TokenHistory history(ids, 2, NeedsOccurrences(params));

  EXPECT_THAT(Apply(params, history, {2.0f, -1.0f, 3.0f}),
              ElementsAre(FloatEq(0.35f), FloatEq(-1.25f), FloatEq(3.0f)));
}

TEST(LogitRules, RepetitionSeesThePromptAndTheOtherPenaltiesDoNot) {
  SamplingParams params;
  params.presence_penalty = 2.0f;
  const std::vector<TokenId> ids = {1, 1};
  EXPECT_THAT(Apply(params, TokenHistory(ids, 2, true), {1, 1, 1}), ElementsAre(1, 1, 1));

  params.presence_penalty = 0;
  params.repetition_penalty = 2.0f;
  EXPECT_THAT(Apply(params, TokenHistory(ids, 2, true), {1, 1, 1}), ElementsAre(1, 0.5f, 1));
}

TEST(LogitRules, B035_RefusedDraftsLeaveNoTraceInTheCounters) {
  SamplingParams params;
  params.frequency_penalty = 1.0f;
  const std::vector<TokenId> ids = {2};
  TokenHistory history(ids, 1, true);

  history.PushDraft(1);
  history.PushDraft(1);
  EXPECT_THAT(Apply(params, history, {5, 5, 5}), ElementsAre(5, 3, 5));
  history.PopDrafts();

  EXPECT_THAT(Apply(params, history, {5, 5, 5}), ElementsAre(5, 5, 5));
  history.Append(0);
  EXPECT_THAT(Apply(params, history, {5, 5, 5}), ElementsAre(4, 5, 5));
}

TEST(LogitRules, AllowedIdsMaskTheRestEvenAgainstBias) {
  SamplingParams params;
  params.allowed_token_ids = {1};
  params.logit_bias = {{0, 100.0f}, {1, -3.0f}};
  EXPECT_THAT(Apply(params, TokenHistory({}, 0, false), {1, 2, 3}), ElementsAre(kMasked, -1, kMasked));
}

TEST(LogitRules, BadWordsMatchTheTailOfTheOutputAndItsDrafts) {
  SamplingParams params;
  params.bad_words = {{0}, {1, 2, 3}};
  const std::vector<TokenId> prompt_ends_in_word = {1, 2};
  TokenHistory history(prompt_ends_in_word, 2, false);
  EXPECT_THAT(Apply(params, history, {1, 1, 1, 1}), ElementsAre(kMasked, 1, 1, 1)) << "prompt is no output";

  history.Append(1);
  history.PushDraft(2);
  EXPECT_THAT(Apply(params, history, {1, 1, 1, 1}), ElementsAre(kMasked, 1, 1, kMasked));
  history.PopDrafts();
  EXPECT_THAT(Apply(params, history, {1, 1, 1, 1}), ElementsAre(kMasked, 1, 1, 1));
}

TEST(LogitRules, MinTokensMasksEveryEndUntilTheDraftsReachIt) {
  SamplingParams params;
  params.min_tokens = 2;
  params.eos_token_ids = {0};
  params.stop_token_ids = {3};
  params.ignore_eos = true;
  TokenHistory history({}, 0, false);
  EXPECT_THAT(Apply(params, history, {1, 1, 1, 1}), ElementsAre(kMasked, 1, 1, kMasked));

  history.Append(1);
  history.PushDraft(1);
  EXPECT_FALSE(HasLogitRules(params, history));
  EXPECT_THAT(Apply(params, history, {1, 1, 1, 1}), ElementsAre(1, 1, 1, 1));
}

}  // namespace
}  // namespace paceline
