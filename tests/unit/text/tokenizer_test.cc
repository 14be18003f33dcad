// The tokenizer as a whole, on tiny vocabularies whose right ids are plain to see.
#include "common/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/unit/text/spec_builders.h"

namespace paceline {
namespace {

using testing::ByteLevelSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeTokenizer;
using testing::SentencePieceSpec;

std::vector<TokenId> Ids(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  const auto ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(std::vector<TokenId>());
}

std::string RefusalOf(TokenizerSpec spec) {
  const auto tokenizer = Tokenizer::Create(std::move(spec));
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(Message(tokenizer.status()));
}

TEST(Bpe, MergesByRankAndThenFromTheLeft) {
  const auto tokenizer = MakeTokenizer(ByteLevelSpec({{"b", "c"}, {"a", "b"}, {"a", "a"}}, {}));

  EXPECT_THAT(Ids(*tokenizer, "abc"), ElementsAre('a', 256));
  EXPECT_THAT(Ids(*tokenizer, "aaa"), ElementsAre(258, 'a'));
  EXPECT_THAT(Ids(*tokenizer, "abab"), ElementsAre(257, 257));
}

TEST(Bpe, IgnoreMergesTakesASplitThatIsAToken) {
  TokenizerSpec spec = ByteLevelSpec({{"a", "b"}}, {});
  spec.tokens.push_back("xyz");
  spec.types.push_back(TokenType::kNormal);
  const auto plain = MakeTokenizer(spec);
  spec.ignore_merges = true;
  const auto ignoring = MakeTokenizer(spec);

  EXPECT_THAT(Ids(*plain, "xyz"), ElementsAre('x', 'y', 'z'));
  EXPECT_THAT(Ids(*ignoring, "xyz"), ElementsAre(257));
}

TEST(Bpe, MergeOutsideTheVocabularyIsRefused) {
  TokenizerSpec spec = ByteLevelSpec({}, {});
  spec.merges = {{"a", "b"}};

  EXPECT_THAT(RefusalOf(spec), HasSubstr("'a' + 'b'"));
}

TEST(Bpe, CharactersWithoutATokenBecomeBytesOrOneUnknown) {
  TokenizerSpec spec;
  spec.tokens = {"<unk>", "a", "<0xC3>", "<0xA9>"};
  spec.types.assign(4, TokenType::kNormal);
  spec.unknown = 0;
  spec.fuse_unknown = true;
  spec.byte_fallback = true;
  const auto tokenizer = MakeTokenizer(spec);

  EXPECT_THAT(Ids(*tokenizer, "a\u00e9\u4e2d\u4e2da"), ElementsAre(1, 2, 3, 0, 1));
}

TEST(SentencePieceBpe, BestScoreIsMergedFirstAndBytesFillGaps) {
  const auto tokenizer = MakeTokenizer(SentencePieceSpec({"ab", "\u2581a", "\u2581", "a", "b", "c"}));

  EXPECT_THAT(Ids(*tokenizer, "ab"), ElementsAre(1, 261, 259));
  EXPECT_THAT(Ids(*tokenizer, "a z"), ElementsAre(1, 260, 261, 3 + 'z'));
}

TEST(SentencePieceBpe, UnusedTokenIsTakenApartAgain) {
  TokenizerSpec spec = SentencePieceSpec({"ab", "a", "b", "\u2581"});
  spec.types[259] = TokenType::kUnused;
  const auto tokenizer = MakeTokenizer(spec);

  EXPECT_THAT(Ids(*tokenizer, "ab"), ElementsAre(1, 262, 260, 261));
}

TEST(Unigram, TakesTheSegmentationWithTheBestSum) {
  TokenizerSpec spec;
  spec.model = TokenizerModelKind::kUnigram;
  spec.tokens = {"<unk>", "a", "b", "ab", "abc", "c"};
  spec.types.assign(6, TokenType::kNormal);
  spec.scores = {0, -1, -1, -1.5, -4, -1};
  spec.unknown = 0;
  spec.fuse_unknown = true;
  const auto tokenizer = MakeTokenizer(spec);

  EXPECT_THAT(Ids(*tokenizer, "abc"), ElementsAre(3, 5));
  EXPECT_THAT(Ids(*tokenizer, "a??b"), ElementsAre(1, 0, 2));
}

TEST(WordPiece, TakesTheLongestPrefixOrUnknown) {
  TokenizerSpec spec;
  spec.model = TokenizerModelKind::kWordPiece;
  spec.tokens = {"[UNK]", "un", "##aff", "##able", "##a"};
  spec.types.assign(5, TokenType::kNormal);
  spec.unknown = 0;
  spec.pre_tokenizer = {{.kind = PreTokenizerStep::Kind::kBert}};
  spec.decoder = {{.kind = DecoderStep::Kind::kWordPiece, .content = "##"}};
  const auto tokenizer = MakeTokenizer(spec);

  EXPECT_THAT(Ids(*tokenizer, "unaffable unx"), ElementsAre(1, 2, 3, 0));
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{1, 2, 3, 1}), "unaffable un");
}

TEST(Tokenizer, B107_PrefixIsPutInFrontAgainBehindASpecialToken) {
  const auto tokenizer = MakeTokenizer(SentencePieceSpec({"\u2581G", "\u2581", "G"}));

  EXPECT_THAT(Ids(*tokenizer, "<s>G", {.add_special_tokens = false}), ElementsAre(1, 259));
}

TEST(Tokenizer, B109_BosIsThereExactlyOnce) {
  const auto tokenizer = MakeTokenizer(SentencePieceSpec({"\u2581hello", "\u2581hi"}));
  const auto by_template = tokenizer->EncodeChatPrompt("<s>hello");
  const auto asked_twice = tokenizer->EncodeChatPrompt("<s>hello", {.add_special_tokens = true});
  const auto no_bos_text = tokenizer->EncodeChatPrompt("hello", {.add_special_tokens = true});
  ASSERT_TRUE(by_template.ok() && asked_twice.ok() && no_bos_text.ok());

  for (const auto& ids : {*by_template, *asked_twice, *no_bos_text, Ids(*tokenizer, "hi")}) {
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 1);
    EXPECT_EQ(ids.front(), 1);
  }
  EXPECT_EQ(*by_template, *asked_twice);
}

TEST(Tokenizer, B116_TokensOverTheLimitAreAnErrorAndCountsAreSizeT) {
  const auto tokenizer = MakeTokenizer(ByteLevelSpec({}, {}));

  EXPECT_EQ(Ids(*tokenizer, std::string(16, 'x'), {.tokens_max = 16}).size(), 16u);
  const auto over = tokenizer->Encode(std::string(17, 'x'), {.tokens_max = 16});
  EXPECT_EQ(over.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(CheckTokenCount((size_t{1} << 31) + 5, 16).ok());
  EXPECT_FALSE(CheckTokenCount(std::numeric_limits<size_t>::max(), size_t{1} << 32).ok());
}

TEST(Tokenizer, EmptyTextIsBosAloneOrNothing) {
  EXPECT_THAT(Ids(*MakeTokenizer(SentencePieceSpec({"a"})), ""), ElementsAre(1));
  EXPECT_THAT(Ids(*MakeTokenizer(ByteLevelSpec({}, {})), ""), ElementsAre());
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefused) {
  const auto tokenizer = MakeTokenizer(ByteLevelSpec({}, {}));

  EXPECT_EQ(tokenizer->Encode("caf\xC3").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Tokenizer, KnowsTokensByTextBytesAndKind) {
  const auto tokenizer = MakeTokenizer(ByteLevelSpec({{"\u0120", "a"}}, {"<|end|>"}));

  EXPECT_EQ(tokenizer->vocab_size(), 258u);
  EXPECT_EQ(tokenizer->TokenBytes(256), " a");
  EXPECT_EQ(tokenizer->TokenText(256), "\u0120a");
  EXPECT_EQ(tokenizer->TokenBytes(0xE4), "\xE4");
  EXPECT_EQ(tokenizer->TokenToId("<|end|>"), 257);
  EXPECT_EQ(tokenizer->TokenToId("no such"), std::nullopt);
  EXPECT_TRUE(tokenizer->IsSpecial(257));
  EXPECT_FALSE(tokenizer->IsSpecial(256));
  for (const TokenId id : {-1, 258, std::numeric_limits<TokenId>::max()}) {
    EXPECT_EQ(tokenizer->TokenBytes(id), "");
    EXPECT_FALSE(tokenizer->IsSpecial(id));
    EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{id}), "");
  }
}

TEST(Tokenizer, DigestNamesTheVocabulary) {
  const auto one = MakeTokenizer(ByteLevelSpec({{"a", "b"}}, {}));
  const auto same = MakeTokenizer(ByteLevelSpec({{"a", "b"}}, {}));
  const auto other = MakeTokenizer(ByteLevelSpec({{"a", "c"}}, {}));

  EXPECT_EQ(one->Digest(), same->Digest());
  EXPECT_NE(one->Digest(), other->Digest());
  EXPECT_EQ(one->Digest().size(), 32u);
}

TEST(Tokenizer, SpecThatContradictsItselfIsRefusedByName) {
  TokenizerSpec spec = SentencePieceSpec({"a"});
  spec.bos = 9999;
  EXPECT_THAT(RefusalOf(spec), HasSubstr("BOS is id 9999"));

  spec = SentencePieceSpec({"a"});
  spec.scores.pop_back();
  EXPECT_THAT(RefusalOf(spec), HasSubstr("260 scores"));

  spec = SentencePieceSpec({"a"});
  spec.scores[5] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(RefusalOf(spec), HasSubstr("score of token 5"));

  spec = ByteLevelSpec({}, {});
  spec.added_tokens.push_back({.id = 700, .content = "x"});
  EXPECT_THAT(RefusalOf(spec), HasSubstr("added token 'x'"));

  EXPECT_THAT(RefusalOf(TokenizerSpec{}), HasSubstr("found 0"));
}

}  // namespace
}  // namespace paceline
