// Streams of tokens as text, and stop strings in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "common/text/stop_matcher.h"
#include "common/text/streaming_detokenizer.h"
#include "common/text/unicode.h"
#include "tests/unit/text/spec_builders.h"

namespace paceline {
namespace {

using testing::ByteLevelSpec;
using ::testing::ElementsAre;
using testing::MakeTokenizer;
using testing::SentencePieceSpec;

std::vector<std::string> Stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                                DetokenizerOptions options = {.at_text_start = true}) {
  StreamingDetokenizer stream(tokenizer, options);
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(stream.Append(id));
  pieces.push_back(stream.Flush());
  return pieces;
}

std::string Join(const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) out += piece;
  return out;
}

TEST(StreamingDetokenizer, B100_BytesAreHeldUntilTheCharacterIsWhole) {
  const auto byte_level = MakeTokenizer(ByteLevelSpec({}, {}));
  EXPECT_THAT(Stream(*byte_level, {0xF0, 0x9F, 0x98, 0x80, 'a'}),
              ElementsAre("", "", "", "\xF0\x9F\x98\x80", "a", ""));
  EXPECT_THAT(Stream(*byte_level, {0xE4, 0xBD, 0xA0}), ElementsAre("", "", "\xE4\xBD\xA0", ""));
  EXPECT_THAT(Stream(*byte_level, {'a', 0xE4, 0xBD}), ElementsAre("a", "", "", "\uFFFD"));

  const auto fallback = MakeTokenizer(SentencePieceSpec({"a"}));
  EXPECT_THAT(Stream(*fallback, {3 + 0xE4, 3 + 0xBD, 3 + 0xA0, 259}),
              ElementsAre("", "", "\xE4\xBD\xA0", "a", ""));
  EXPECT_THAT(Stream(*fallback, {3 + 0xE4, 3 + 0xBD, 259}), ElementsAre("", "", "\uFFFD\uFFFDa", ""));
}

TEST(StreamingDetokenizer, B130_AStreamThatEndsInsideACharacterIsAlive) {
  const auto tokenizer = MakeTokenizer(ByteLevelSpec({}, {}));

  EXPECT_THAT(Stream(*tokenizer, {0xF0}), ElementsAre("", "\uFFFD"));
}

TEST(StreamingDetokenizer, B110_SpaceThatMarksTheStartIsDroppedOnlyAtTheStart) {
  const auto tokenizer =
      MakeTokenizer(SentencePieceSpec({"\u2581I", "\u2581am", "\u2581testing", "\u2581out"}));

  EXPECT_EQ(Join(Stream(*tokenizer, {259, 260, 261, 262})), "I am testing out");
  EXPECT_EQ(Join(Stream(*tokenizer, {259, 260, 261, 262}, {.at_text_start = false})), " I am testing out");
}

TEST(StreamingDetokenizer, B112_OnlyOneSpaceIsDroppedWhenTheFirstPieceBecomesEmpty) {
  const auto tokenizer = MakeTokenizer(SentencePieceSpec({"\u2581", "\u2581leading", "\u2581x"}));

  EXPECT_THAT(Stream(*tokenizer, {259, 260, 261}), ElementsAre("", " leading", " x", ""));
}

TEST(StreamingDetokenizer, B113_FourSpacesStayFour) {
  const auto tokenizer = MakeTokenizer(
      SentencePieceSpec({"\u2581\u2581\u2581", "\u2581a", "\u2581b", "\u2581\u2581", "\u2581", "a", "b"}));
  const auto ids = tokenizer->Encode("a    b", {.add_special_tokens = false});
  ASSERT_TRUE(ids.ok());

  EXPECT_EQ(Join(Stream(*tokenizer, *ids)), "a    b");
}

TEST(StreamingDetokenizer, SpecialTokensAreSkippedOrShown) {
  const auto tokenizer = MakeTokenizer(ByteLevelSpec({}, {"<|end|>"}));

  EXPECT_EQ(Join(Stream(*tokenizer, {'a', 256, 'b'})), "ab");
  EXPECT_EQ(Join(Stream(*tokenizer, {'a', 256, 'b'}, {.skip_special_tokens = false})), "a<|end|>b");
}

// Any ids at all, good text or not: what was streamed is what Decode gives, and every piece is whole
// characters.
void ExpectStreamEqualsDecode(const Tokenizer& tokenizer) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::vector<TokenId> ids(random() % 20);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % (tokenizer.vocab_size() + 3)) - 1;
    const bool skip = random() % 2 == 0;

    const auto pieces = Stream(tokenizer, ids, {.skip_special_tokens = skip, .at_text_start = true});

    ASSERT_EQ(Join(pieces), tokenizer.Decode(ids, {.skip_special_tokens = skip})) << "round " << round;
    for (const std::string& piece : pieces) ASSERT_TRUE(IsValidUtf8(piece)) << "round " << round;
  }
}

TEST(StreamingDetokenizer, StreamEqualsDecodeForAnyIdsOfAByteLevelModel) {
  ExpectStreamEqualsDecode(*MakeTokenizer(ByteLevelSpec({{"\u00E4", "\u00BD"}, {"a", "b"}}, {"<|x|>"})));
}

TEST(StreamingDetokenizer, StreamEqualsDecodeForAnyIdsOfAByteFallbackModel) {
  ExpectStreamEqualsDecode(*MakeTokenizer(SentencePieceSpec({"\u2581", "\u2581a", "\u4e2d"})));
}

TEST(StreamingDetokenizer, StreamEqualsDecodeForAnyIdsOfAMetaspaceModel) {
  TokenizerSpec spec = SentencePieceSpec({"\u2581", "\u2581a\u2581b", "c"});
  spec.decoder = {{.kind = DecoderStep::Kind::kMetaspace, .content = "\u2581"}};
  const auto tokenizer = MakeTokenizer(spec);

  ExpectStreamEqualsDecode(*tokenizer);
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{260, 260}), "ab a b");
}

TEST(StreamingDetokenizer, B115_ATokenCostsTheSameAtTheEndOfALongAnswer) {
  const auto tokenizer = MakeTokenizer(SentencePieceSpec({"\u2581word"}));
  StreamingDetokenizer stream(*tokenizer, {});
  const auto best_of_blocks = [&](int blocks) {
    auto best = std::chrono::steady_clock::duration::max();
    for (int block = 0; block < blocks; ++block) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 500; ++i) EXPECT_EQ(stream.Append(259), " word");
      best = std::min(best, std::chrono::steady_clock::now() - start);
    }
    return best;
  };

  const auto early = best_of_blocks(16);
  for (int i = 0; i < 1'000'000; ++i) stream.Append(259);
  const auto late = best_of_blocks(16);

  EXPECT_LT(late, 2 * early + std::chrono::microseconds(50));
}

struct StopResult {
  std::string text;
  std::optional<StopMatch> match;
};

StopResult RunStops(std::vector<std::string> stops, const std::vector<std::string>& pieces,
                    StopOptions options = {}) {
  StopMatcher matcher(std::move(stops), options);
  StopResult out;
  for (size_t i = 0; i < pieces.size() && !out.match; ++i) {
    StopMatcher::Step step = matcher.Feed(pieces[i], i);
    out.text += step.text;
    out.match = step.match;
  }
  out.text += matcher.Finish();
  return out;
}

TEST(StopMatcher, B025_TextAndTokenIndexEndTogether) {
  const StopResult out = RunStops({" ha ha ha"}, {"So", " ha", " ha", " ha", " ha"});

  EXPECT_EQ(out.text, "So");
  ASSERT_TRUE(out.match);
  EXPECT_EQ(out.match->token_index, 3u);
  EXPECT_EQ(out.match->stop, " ha ha ha");
}

TEST(StopMatcher, B026_ManyTokensAtOnceAreCutWhereOneByOneWouldBe) {
  const std::string text = "code <|end_region|> more <|end_region|> and more";
  std::vector<std::string> letters;
  for (const char c : text) letters.emplace_back(1, c);

  EXPECT_EQ(RunStops({"<|end_region|>"}, {text}).text, "code ");
  EXPECT_EQ(RunStops({"<|end_region|>"}, letters).text, "code ");
}

TEST(StopMatcher, B029_TheMatchThatCompletesEarliestWins) {
  const StopResult out =
      RunStops({"atoms with 11 protons", "ionized"}, {"are", " highly", " ion", "ized", " atoms"});

  EXPECT_EQ(out.text, "are highly ");
  EXPECT_EQ(out.match->stop_index, 1u);
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStopString) {
  StopMatcher matcher({"abcd", "bx"}, {});

  EXPECT_EQ(matcher.Feed("zzab", 0).text, "zz");
  EXPECT_EQ(matcher.Feed("c", 1).text, "");
  EXPECT_EQ(matcher.Feed("e", 2).text, "abce");
  EXPECT_EQ(matcher.Feed("ab", 3).text, "");
  EXPECT_EQ(matcher.Finish(), "ab");
}

TEST(StopMatcher, IncludedStopStringStaysAndNothingIsHeldBack) {
  StopMatcher matcher({"END"}, {.include_stop_string = true});

  EXPECT_EQ(matcher.Feed("xE", 0).text, "xE");
  const StopMatcher::Step step = matcher.Feed("NDy", 1);
  EXPECT_EQ(step.text, "ND");
  EXPECT_TRUE(step.match);
  EXPECT_EQ(matcher.Feed("more", 2).text, "");
}

TEST(StopMatcher, TextOfTheFirstTokensIsNotSearched) {
  const StopResult out = RunStops({"ab"}, {"ab", "a", "ab"}, {.tokens_min = 1});

  EXPECT_EQ(out.text, "aba");
  EXPECT_EQ(out.match->token_index, 2u);
}

// However the text is cut into pieces, it ends at the same byte; and nothing shown is taken back.
TEST(StopMatcher, TheCutDoesNotDependOnThePieces) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](size_t max) {
      std::string out;
      for (size_t i = 1 + random() % max; i > 0; --i) out.push_back("ab"[random() % 2]);
      return out;
    };
    const std::string text = word(40);
    const std::vector<std::string> stops = {word(5), word(5)};
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random() % 6;
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    size_t end = text.npos;  // of the match that completes first; the earlier in the list at a tie
    size_t cut = text.size();
    for (const std::string& stop : stops) {
      const size_t at = text.find(stop);
      if (at == text.npos || at + stop.size() >= end) continue;
      end = at + stop.size();
      cut = at;
    }
    const StopResult whole = RunStops(stops, {text});
    ASSERT_EQ(whole.text, text.substr(0, cut)) << text << " " << stops[0] << " " << stops[1];
    ASSERT_EQ(RunStops(stops, pieces).text, whole.text) << text << " " << stops[0] << " " << stops[1];
  }
}

}  // namespace
}  // namespace paceline
