// Scanners against the regular expressions they stand for: PCRE2 runs the same pattern on the same random
// text.
#include "common/text/scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "common/text/unicode.h"

namespace paceline {
namespace {

std::vector<std::string> Matches(const Scanner& scanner, const std::u32string& text) {
  std::vector<TextRange> ranges;
  const Status status = scanner.FindAll(text, &ranges);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> out;
  for (const TextRange& range : ranges) {
    out.push_back(ToUtf8(std::u32string_view(text).substr(range.begin, range.end - range.begin)));
  }
  return out;
}

std::vector<std::string> Matches(std::string_view pattern, const std::u32string& text) {
  const auto scanner = MakeScanner(pattern);
  EXPECT_TRUE(scanner.ok()) << scanner.status();
  return scanner.ok() ? Matches(**scanner, text) : std::vector<std::string>();
}

// Letters, marks, digits, contractions, punctuation, symbols, all kinds of space: what the alternatives tell
// apart.
std::u32string RandomText(std::mt19937* random) {
  static constexpr std::u32string_view kAlphabet =
      U"aAsStTdDmMrRvVeElL'' \t\n\r\u00A0\u3000\u2028\u0085.,!/_-$+<=>^~|`\"({[12\u00B2\u0661\u2167"
      U"\u0301\u0903\u01C5\u02B0\u4E2D\u3042\u30AB\u0431\u0411\u00E9\u017F\U0001F600\u200D\uFEFF";
  std::u32string text;
  const size_t length = (*random)() % 24;
  for (size_t i = 0; i < length; ++i) text.push_back(kAlphabet[(*random)() % kAlphabet.size()]);
  return text;
}

class EqualsRegex : public ::testing::TestWithParam<std::string_view> {};

TEST_P(EqualsRegex, OnRandomText) {
  std::unique_ptr<Scanner> ours = MakeKnownScanner(GetParam());
  if (ours == nullptr) ours = MakeClassScanner(GetParam());
  ASSERT_NE(ours, nullptr) << "no scanner of our own for " << GetParam();
  const auto regex = MakeRegexScanner(GetParam());
  ASSERT_TRUE(regex.ok()) << regex.status();
  std::mt19937 random(7);

  for (int i = 0; i < 4000; ++i) {
    const std::u32string text = RandomText(&random);
    ASSERT_EQ(Matches(*ours, text), Matches(**regex, text)) << "text " << i << ": '" << ToUtf8(text) << "'";
  }
}

INSTANTIATE_TEST_SUITE_P(Known, EqualsRegex,
                         ::testing::Values(kGpt2Pattern, kLlama3Pattern, kQwen2Pattern, kQwen35Pattern,
                                           kDeepSeekV3Pattern, kTekkenPattern, kGpt4oPattern));
INSTANTIATE_TEST_SUITE_P(Classes, EqualsRegex,
                         ::testing::Values(R"(\p{N}{1,3})", R"(\p{N})", R"(\p{N}+)", R"([0-9][0-9][0-9])",
                                           R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"(\s+$)",
                                           R"(\p{L}{2})", R"([^\s\p{L}]+)", R"( ?[^(\s|.,!?)]+)",
                                           R"([\x{4e00}-\x{9fa5}a-f]+)", R"(\S{2,})",
                                           R"([\p{P}\$\+<=>\^~\|]+)"));

TEST(Scanner, TakesAllButTheLastSpaceInFrontOfAWord) {
  EXPECT_THAT(Matches(kGpt2Pattern, U"a   b"), ::testing::ElementsAre("a", "  ", " b"));
  EXPECT_THAT(Matches(kLlama3Pattern, U"a  \n b"), ::testing::ElementsAre("a", "  \n", " b"));
}

TEST(Scanner, ReadsNewlinesInAClassWrittenAsControlCharacters) {
  const std::string pattern = ReplaceAll(ReplaceAll(kDeepSeekV3Pattern, "\\n", "\n"), "\\r", "\r");

  EXPECT_NE(MakeKnownScanner(pattern), nullptr);
}

TEST(Scanner, RunToLineEndOfSpacesThatDoNotReachItIsLinear) {
  const std::u32string text = std::u32string(200'000, U' ') + U"a";

  EXPECT_THAT(Matches(R"(\s+$)", text), ::testing::IsEmpty());
}

TEST(Scanner, B119_PatternThatBacktracksExponentiallyIsStoppedByItsBudget) {
  const auto harmless = MakeScanner("(a+)+");
  const auto explosive = MakeScanner("(a+)+$");
  ASSERT_TRUE(harmless.ok() && explosive.ok());
  const std::u32string text = std::u32string(30, U'a') + U"b";

  std::vector<TextRange> matches;
  EXPECT_TRUE((*harmless)->FindAll(text, &matches).ok());
  EXPECT_THAT(matches, ::testing::ElementsAre(TextRange{0, 30}));
  const Status status = (*explosive)->FindAll(text, &matches);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(status)), ::testing::HasSubstr("(a+)+$"));
}

TEST(Scanner, RepeatThatRunsFarFromEveryPositionIsStoppedByItsBudget) {
  const auto scanner = MakeScanner("(?:[^a]*a)x");
  ASSERT_TRUE(scanner.ok()) << scanner.status();

  std::vector<TextRange> matches;
  const Status status = (*scanner)->FindAll(std::u32string(100'000, U'b'), &matches);

  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(Scanner, RefusesWhatOnigurumaReadsInAnotherWay) {
  for (const char* pattern : {R"([\p{L}&&[^\p{Han}]]+x)", R"(\h+(?=a))", "[a[bc]]+?", "(unclosed", ""}) {
    const auto scanner = MakeScanner(pattern);
    EXPECT_EQ(scanner.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
  }
}

}  // namespace
}  // namespace paceline
