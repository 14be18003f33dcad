// Ids to shown text: characters, stop strings, ends.
#include "coordinator/request/choice_text.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/coordinator_api/api_fixture.h"

namespace paceline::testing {
namespace {

struct Outcome {
  std::string text;
  size_t num_tokens = 0;
  std::string stop;
};

// Feeds `bytes` in runs, as an engine does, until a stop completes.
Outcome Play(std::string_view bytes, ChoiceTextOptions options, size_t run, size_t min_tokens = 0) {
  ChoiceText text(ByteTokenizer(), std::move(options));
  Outcome out;
  while (out.num_tokens < bytes.size() && out.stop.empty()) {
    for (size_t i = 0; i < run && out.num_tokens < bytes.size() && out.stop.empty(); ++i) {
      const auto id = static_cast<unsigned char>(bytes[out.num_tokens]);
      const bool searchable = out.num_tokens >= min_tokens;
      ++out.num_tokens;
      if (text.OnToken(id, searchable, false)) out.stop = text.stop_string();
    }
    out.text += text.TakeText(!out.stop.empty() || out.num_tokens == bytes.size());
  }
  return out;
}

TEST(ChoiceText, B026_AStopInsideALongRunCutsAsTokenByTokenDoes) {
  const std::string bytes = "before <|end_region|> behind it all";
  const Outcome slow = Play(bytes, {.stop = {"<|end_region|>"}}, 1);
  for (size_t run = 1; run <= bytes.size(); ++run) {
    const Outcome fast = Play(bytes, {.stop = {"<|end_region|>"}}, run);
    EXPECT_EQ(fast.text, "before ");
    EXPECT_EQ(fast.text, slow.text);
    EXPECT_EQ(fast.num_tokens, slow.num_tokens);
  }
}

TEST(ChoiceText, B029_StopsOfDifferentLengthsEndAtTheFirstThatCompletes) {
  EXPECT_EQ(Play("highly ionized", {.stop = {"atoms with 11 protons", "ionized"}}, 5).text, "highly ");
}

TEST(ChoiceText, TextOfTheFirstTokensIsNotSearched) {
  EXPECT_EQ(Play("a.b.c", {.stop = {"."}}, 1, 3).text, "a.b");
}

TEST(ChoiceText, TheStopStringCanBeShown) {
  EXPECT_EQ(Play("ab!c", {.stop = {"!"}, .include_stop_string = true}, 2).text, "ab!");
}

TEST(ChoiceText, AHiddenEndAddsNothingAndReleasesWhatWasHeld) {
  ChoiceText text(ByteTokenizer(), {.stop = {"xyz"}});

  for (char c : std::string_view("abxy")) text.OnToken(c, true, false);
  EXPECT_EQ(text.TakeText(false), "ab");
  text.OnToken('!', true, true);

  EXPECT_EQ(text.TakeText(true), "xy");
}

// For random texts, stops and runs: the joined pieces are the text in front of the first completed stop.
TEST(ChoiceText, PiecesEqualTheCutTextForAnyRuns) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (unsigned i = 0; i < 1 + random() % 30; ++i) bytes += "ab\xC3\xA9"[random() % 2];
    std::vector<std::string> stops;
    for (unsigned i = 0; i < 1 + random() % 3; ++i) {
      std::string stop;
      for (unsigned k = 0; k < 2 + random() % 4; ++k) stop += "ab"[random() % 2];
      stops.push_back(stop);
    }
    size_t best_end = std::string::npos, best_start = std::string::npos;
    for (const std::string& stop : stops) {
      const size_t at = bytes.find(stop);
      if (at == std::string::npos || at + stop.size() > best_end) continue;
      // The earliest end wins; of several the first in the list.
      if (at + stop.size() < best_end) {
        best_end = at + stop.size();
        best_start = at;
      }
    }
    const std::string want = bytes.substr(0, best_start);

    const Outcome outcome = Play(bytes, {.stop = stops}, 1 + random() % 9);

    ASSERT_EQ(outcome.text, want) << bytes;
    ASSERT_EQ(outcome.num_tokens, std::min(best_end, bytes.size()));
  }
}

}  // namespace
}  // namespace paceline::testing
