#include "coordinator/request/trim.h"

#include <gtest/gtest.h>

#include <vector>

namespace paceline {
namespace {

constexpr TokenId kStop = 2;

SamplingParams Stopping(uint32_t max_tokens) {
  SamplingParams sampling;
  sampling.max_tokens = max_tokens;
  sampling.eos_token_ids = {kStop};
  sampling.stop_token_ids = {kStop, 77};
  return sampling;
}

// Says that its stop string completes with `id`, and notes what it hears.
class FakeText : public TextWatcher {
 public:
  explicit FakeText(TokenId id) : id_(id) {}
  bool OnToken(TokenId id, bool searchable, bool hidden) override {
    heard.push_back(id);
    hidden_count += hidden;
    return searchable && id == id_;
  }
  std::string TakeText(bool) override { return ""; }
  std::string stop_string() const override { return "ha ha"; }
  std::vector<TokenId> heard;
  int hidden_count = 0;

 private:
  TokenId id_;
};

TEST(Trim, KeepsARunThatNothingEnds) {
  const std::vector<TokenId> run = {10, 11, 12};

  const TrimResult result = TrimRun(Stopping(50), {4, 0, 100}, run, nullptr);

  EXPECT_EQ(result.kept, 3u);
  EXPECT_EQ(result.finish, FinishReason::kNone);
}

TEST(Trim, B022_AStopBeforeTheCapWinsInTokenOrder) {
  const std::vector<TokenId> run = {10, 11, kStop, 20, 21, 22};

  const TrimResult result = TrimRun(Stopping(5), {4, 0, 100}, run, nullptr);

  EXPECT_EQ(result.kept, 3u);
  EXPECT_EQ(result.finish, FinishReason::kStop);
  EXPECT_FALSE(result.stop_token);  // the primary end id is nobody's stop reason
}

TEST(Trim, B022_TheCapBeforeAStopWins) {
  const std::vector<TokenId> run = {10, 11, kStop};

  const TrimResult result = TrimRun(Stopping(2), {4, 0, 100}, run, nullptr);

  EXPECT_EQ(result.kept, 2u);
  EXPECT_EQ(result.finish, FinishReason::kLength);
}

TEST(Trim, B023_NothingBehindAnEndIdIsKeptOrHeard) {
  const std::vector<TokenId> run = {10, kStop, 30, 31};  // all accepted, plus the bonus id
  FakeText text(999);

  const TrimResult result = TrimRun(Stopping(4), {4, 0, 100}, run, &text);

  EXPECT_EQ(result.kept, 2u);
  EXPECT_EQ(result.finish, FinishReason::kStop);
  EXPECT_EQ(text.heard, (std::vector<TokenId>{10, kStop}));
  EXPECT_EQ(text.hidden_count, 1);
}

TEST(Trim, AnotherStopIdIsNamed) {
  const std::vector<TokenId> run = {77};

  EXPECT_EQ(TrimRun(Stopping(9), {4, 0, 100}, run, nullptr).stop_token, 77);
}

TEST(Trim, B025_AStopStringEndsAtTheIdThatCompletesIt) {
  const std::vector<TokenId> run = {10, 40, 41};
  FakeText text(40);

  const TrimResult result = TrimRun(Stopping(9), {4, 0, 100}, run, &text);

  EXPECT_EQ(result.kept, 2u);
  EXPECT_EQ(result.finish, FinishReason::kStop);
  EXPECT_EQ(result.stop_string, "ha ha");
}

TEST(Trim, StopsBelowMinTokensDoNotCount) {
  SamplingParams sampling = Stopping(9);
  sampling.min_tokens = 3;
  const std::vector<TokenId> run = {kStop, 40, 40, 40};
  FakeText text(40);

  const TrimResult result = TrimRun(sampling, {4, 0, 100}, run, &text);

  EXPECT_EQ(result.kept, 4u);  // only the fourth id is searched
  EXPECT_EQ(result.stop_string, "ha ha");
}

TEST(Trim, B020_TheContextEndsTheAnswer) {
  const std::vector<TokenId> run = {10, 11, 12, 13};

  const TrimResult result = TrimRun(Stopping(100), {16382, 0, 16384}, run, nullptr);

  EXPECT_EQ(result.kept, 2u);
  EXPECT_EQ(result.finish, FinishReason::kLength);
}

// Any cut of an answer into runs gives what single ids give (interface section 10, rows 24 to 26).
TEST(Trim, ARunBehavesAsItsIdsOneByOne) {
  const std::vector<TokenId> answer = {10, 40, 11, 77, 12, kStop, 13};
  for (uint32_t max_tokens = 1; max_tokens <= 8; ++max_tokens) {
    for (uint32_t min_tokens = 0; min_tokens <= max_tokens; ++min_tokens) {
      for (TokenId text_stop : {40, 11, 999}) {
        SamplingParams sampling = Stopping(max_tokens);
        sampling.min_tokens = min_tokens;
        FakeText whole_text(text_stop);
        const TrimResult whole = TrimRun(sampling, {4, 0, 100}, answer, &whole_text);

        FakeText single_text(text_stop);
        TrimResult single;
        uint32_t kept = 0;
        while (kept < answer.size() && single.finish == FinishReason::kNone) {
          single = TrimRun(sampling, {4, kept, 100}, std::span(answer).subspan(kept, 1), &single_text);
          kept += static_cast<uint32_t>(single.kept);
        }

        EXPECT_EQ(whole.kept, kept);
        EXPECT_EQ(whole.finish, single.finish);
        EXPECT_EQ(whole.stop_token, single.stop_token);
        EXPECT_EQ(whole_text.heard, single_text.heard);
      }
    }
  }
}

}  // namespace
}  // namespace paceline
