// The steps in front of the model: Unicode, byte alphabet, normalizers, pre-tokenizer chains, added tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text/added_tokens.h"
#include "common/text/byte_alphabet.h"
#include "common/text/normalizer.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/tokenizer_loaders.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using PreKind = PreTokenizerStep::Kind;
using NormKind = NormalizerStep::Kind;

TEST(Utf8, TellsCompleteIncompleteAndInvalidApart) {
  EXPECT_EQ(NextUtf8("\xE4\xBD\xA0").kind, Utf8Unit::Kind::kComplete);
  EXPECT_EQ(NextUtf8("\xE4\xBD").kind, Utf8Unit::Kind::kIncomplete);
  EXPECT_EQ(NextUtf8("\xE4\xBD!").kind, Utf8Unit::Kind::kInvalid);
  EXPECT_EQ(NextUtf8("\xE4\xBD!").bytes, 2u);
  for (const char* bad : {"\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xFF"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
  }
}

TEST(Utf8, EveryCodePointSurvivesTheWayThereAndBack) {
  for (char32_t c = 0; c < 0x110000; c += 37) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string utf8;
    AppendUtf8(c, &utf8);
    std::u32string back;
    ASSERT_TRUE(DecodeUtf8(utf8, &back)) << static_cast<uint32_t>(c);
    ASSERT_EQ(back, std::u32string(1, c));
    ASSERT_EQ(Utf8Length(utf8[0]), utf8.size());
  }
}

TEST(ByteAlphabet, IsABijectionWithTheKnownPoints) {
  EXPECT_EQ(AlphabetOfByte(' '), U'\u0120');
  EXPECT_EQ(AlphabetOfByte('\n'), U'\u010A');
  EXPECT_EQ(AlphabetOfByte(173), U'\u0143');
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(ByteOfAlphabet(AlphabetOfByte(static_cast<uint8_t>(byte))), static_cast<uint8_t>(byte));
  }
  EXPECT_EQ(ByteOfAlphabet(U' '), std::nullopt);
  EXPECT_EQ(ByteOfAlphabet(U'\u0144'), std::nullopt);
}

std::string Normalize(std::vector<NormalizerStep> steps, std::string_view text) {
  const auto normalizer = Normalizer::Create(steps);
  EXPECT_TRUE(normalizer.ok()) << normalizer.status();
  const auto out = normalizer->Normalize(text);
  EXPECT_TRUE(out.ok()) << out.status();
  return out.value_or("");
}

TEST(Normalizer, EachStepDoesWhatItsNameSays) {
  EXPECT_EQ(Normalize({{.kind = NormKind::kPrepend, .content = "_"}}, "a"), "_a");
  EXPECT_EQ(Normalize({{.kind = NormKind::kPrepend, .content = "_"}}, ""), "");
  EXPECT_EQ(Normalize({{.kind = NormKind::kReplace, .pattern = "aa", .content = "b"}}, "aaaaa"), "bba");
  EXPECT_EQ(
      Normalize({{.kind = NormKind::kReplace, .pattern = R"(\s+)", .pattern_is_regex = true, .content = "_"}},
                " a \n b"),
      "_a_b");
  EXPECT_EQ(Normalize({{.kind = NormKind::kNfc}}, "e\u0301"), "\u00e9");
  EXPECT_EQ(Normalize({{.kind = NormKind::kNfd}}, "\u00e9"), "e\u0301");
  EXPECT_EQ(Normalize({{.kind = NormKind::kNfkc}}, "\ufb01\u00b2"), "fi2");
  EXPECT_EQ(Normalize({{.kind = NormKind::kNfkd}}, "\u01c6"), "dz\u030c");
  EXPECT_EQ(Normalize({{.kind = NormKind::kLowercase}}, "\u0130\u00c9A"), "i\u0307\u00e9a");
  EXPECT_EQ(Normalize({{.kind = NormKind::kStrip, .strip_left = true, .strip_right = false}}, " \u3000a "),
            "a ");
  EXPECT_EQ(Normalize({{.kind = NormKind::kNfd}, {.kind = NormKind::kStripAccents}}, "\u00e9"), "e");
  EXPECT_EQ(Normalize({{.kind = NormKind::kCollapseSpaces}}, "  a   b  "), "a b");
}

TEST(Normalizer, PutsALongRunOfMarksInOrderWithoutQuadraticWork) {
  std::string text = "a";
  for (int i = 0; i < 100'000; ++i)
    text += "\u0301\u0323";  // class 230 in front of class 220, again and again

  const std::string out = Normalize({{.kind = NormKind::kNfc}}, text);

  EXPECT_TRUE(out.starts_with("\u1EA1\u0323")) << "a and the dot below compose; the other dots come next";
  EXPECT_TRUE(out.ends_with("\u0301"));
}

std::vector<std::string> Split(std::vector<PreTokenizerStep> steps, std::string_view text,
                               bool at_start = true) {
  const auto pre = PreTokenizer::Create(steps);
  EXPECT_TRUE(pre.ok()) << pre.status();
  const auto out = pre->Split(text, at_start);
  EXPECT_TRUE(out.ok()) << out.status();
  return out.value_or(std::vector<std::string>());
}

PreTokenizerStep OnDash(SplitBehavior behavior) {
  return {.kind = PreKind::kSplit, .pattern = "-", .pattern_is_regex = false, .behavior = behavior};
}

TEST(PreTokenizer, SplitBehavioursCutTheFinalCountdownAsDocumented) {
  const std::string text = "the-final--countdown";
  EXPECT_THAT(Split({OnDash(SplitBehavior::kIsolated)}, text),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(Split({OnDash(SplitBehavior::kRemoved)}, text), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(Split({OnDash(SplitBehavior::kMergedWithPrevious)}, text),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(Split({OnDash(SplitBehavior::kMergedWithNext)}, text),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(Split({OnDash(SplitBehavior::kContiguous)}, text),
              ElementsAre("the", "-", "final", "--", "countdown"));
}

TEST(PreTokenizer, MetaspacePrependsAsItsSchemeSays) {
  const auto with = [](PrependScheme scheme) {
    return std::vector<PreTokenizerStep>{{.kind = PreKind::kMetaspace, .prepend = scheme}};
  };
  EXPECT_THAT(Split(with(PrependScheme::kAlways), "a b"), ElementsAre("\u2581a", "\u2581b"));
  EXPECT_THAT(Split(with(PrependScheme::kAlways), " a", false), ElementsAre("\u2581a"));
  EXPECT_THAT(Split(with(PrependScheme::kFirst), "a", true), ElementsAre("\u2581a"));
  EXPECT_THAT(Split(with(PrependScheme::kFirst), "a", false), ElementsAre("a"));
  EXPECT_THAT(Split(with(PrependScheme::kNever), "a b"), ElementsAre("a", "\u2581b"));
}

TEST(PreTokenizer, LookAheadEndsWithTheSplit) {
  EXPECT_THAT(
      Split({{.kind = PreKind::kDigits, .individual_digits = true}, {.kind = PreKind::kByteLevel}}, "a   12"),
      ElementsAre("a", "   ", "1", "2"));
}

TEST(PreTokenizer, B104_FalconChainRunsInTheOrderOfItsFile) {
  const auto falcon = GgufPreTokenizerNamed("falcon");
  ASSERT_TRUE(falcon.ok());

  EXPECT_THAT(Split(falcon->steps, "1234567 and 12,345.67"),
              ElementsAre("123", "456", "7", " and", " ", "12", ",", "345", ".", "67"));
}

TEST(PreTokenizer, B106_CommandRCutsEveryDigit) {
  const auto command_r = GgufPreTokenizerNamed("command-r");
  ASSERT_TRUE(command_r.ok());

  EXPECT_THAT(Split(command_r->steps, "3.14159 100"),
              ElementsAre("3", ".", "1", "4", "1", "5", "9", " ", "1", "0", "0"));
}

TEST(PreTokenizer, UnknownGgufNameIsRefusedWithTheKnownOnes) {
  const auto unknown = GgufPreTokenizerNamed("no-such-family");
  EXPECT_THAT(std::string(Message(unknown.status())),
              ::testing::AllOf(::testing::HasSubstr("no-such-family"), ::testing::HasSubstr("llama-bpe")));
}

std::vector<std::string> Describe(const std::vector<TextPiece>& pieces) {
  std::vector<std::string> out;
  for (const TextPiece& piece : pieces) {
    out.push_back(piece.token ? std::string("#").append(std::to_string(*piece.token))
                              : std::string(piece.text));
  }
  return out;
}

TEST(AddedTokens, TheLeftmostLongestMatchWins) {
  const AddedTokenMatcher matcher(
      {{.id = 1, .content = "\n"}, {.id = 2, .content = "\n\n"}, {.id = 3, .content = "ab"}});

  EXPECT_THAT(Describe(matcher.Cut("x\n\n\nabab", true)), ElementsAre("x", "#2", "#1", "#3", "#3"));
}

TEST(AddedTokens, SpecialTokensStayTextUnlessParsed) {
  const AddedTokenMatcher matcher({{.id = 1, .content = "<s>", .special = true}, {.id = 2, .content = "s"}});

  EXPECT_THAT(Describe(matcher.Cut("a<s>s", true)), ElementsAre("a", "#1", "#2"));
  EXPECT_THAT(Describe(matcher.Cut("a<s>s", false)), ElementsAre("a<s>", "#2"));
}

TEST(AddedTokens, FlagsLimitAndExtendAMatch) {
  const AddedTokenMatcher matcher({{.id = 1, .content = "cat", .single_word = true},
                                   {.id = 2, .content = "<m>", .lstrip = true, .rstrip = true}});

  EXPECT_THAT(Describe(matcher.Cut("cat concat cat\u00e9 (cat)", true)),
              ElementsAre("#1", " concat cat\u00e9 (", "#1", ")"));
  EXPECT_THAT(Describe(matcher.Cut("a \u3000<m> \n<m> b", true)), ElementsAre("a", "#2", "#2", "b"));
}

}  // namespace
}  // namespace paceline
