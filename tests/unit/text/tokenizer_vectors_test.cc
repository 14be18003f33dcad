// Real vocabularies against ids that their reference implementations gave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/text/open_tokenizer.h"
#include "tests/support/shared_data.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

std::string TokenizersDir() {
  const std::string shared = testing::SharedDir();
  return shared.empty() ? "" : shared + "/data/tokenizers";
}

std::unique_ptr<Tokenizer> Open(const std::string& path) {
  StatusOr<ModelText> text = OpenTokenizer(path);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? std::move(text->tokenizer) : nullptr;
}

std::vector<TokenId> PlainIds(const Tokenizer& tokenizer, const std::string& text) {
  auto ids = tokenizer.Encode(text, {.add_special_tokens = false, .parse_special_tokens = false});
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : std::vector<TokenId>();
}

struct Case {
  std::string text;
  std::vector<TokenId> ids;
};

// NAME.gguf.inp: texts, each closed by a line __ggml_vocab_test__. NAME.gguf.out: a line of ids for each.
std::vector<Case> ReadCases(const std::string& gguf) {
  const std::string mark = "\n__ggml_vocab_test__\n";
  const std::string texts = testing::ReadFileOrDie(gguf + ".inp");
  std::istringstream lines(testing::ReadFileOrDie(gguf + ".out"));
  std::vector<Case> cases;
  for (size_t at = 0; at < texts.size();) {
    const size_t end = texts.find(mark, at);
    Case one{.text = texts.substr(at, end - at), .ids = {}};
    std::string line;
    std::getline(lines, line);
    std::istringstream ids(line);
    for (TokenId id = 0; ids >> id;) one.ids.push_back(id);
    cases.push_back(std::move(one));
    if (end == std::string::npos) break;
    at = end + mark.size();
  }
  return cases;
}

class GgufVocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufVocabulary, EncodesTheTextsOfItsFamilyAsTheReferenceDoes) {
  if (TokenizersDir().empty()) GTEST_SKIP() << "no shared data folder (PACELINE_SHARED)";
  const std::string path = TokenizersDir() + "/ggml-vocab-" + GetParam() + ".gguf";
  const std::unique_ptr<Tokenizer> tokenizer = Open(path);
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<Case> cases = ReadCases(path);
  ASSERT_GT(cases.size(), 40u);

  for (const Case& one : cases) {
    EXPECT_EQ(PlainIds(*tokenizer, one.text), one.ids) << "text: '" << one.text << "'";
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufVocabulary,
                         ::testing::Values("llama-bpe", "llama-spm", "qwen2", "gpt-2", "deepseek-llm",
                                           "starcoder", "falcon", "phi-3"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

nlohmann::json Vectors() {
  return nlohmann::json::parse(
      testing::ReadFileOrDie(testing::SharedDir() + "/formats/tokenizer_vectors.json"));
}

// Compares every text of tokenizer_vectors.json; `first_missing` is the first id that the vocabulary lacks.
void ExpectVectors(const Tokenizer& tokenizer, const std::string& model, TokenId first_missing) {
  const nlohmann::json vectors = Vectors();
  size_t compared = 0;
  for (size_t i = 0; i < vectors["texts"].size(); ++i) {
    const auto text = vectors["texts"][i].get<std::string>();
    const auto& want = vectors["models"][model][i];
    const auto ids = want["ids"].get<std::vector<TokenId>>();
    if (std::any_of(ids.begin(), ids.end(), [&](TokenId id) { return id >= first_missing; })) continue;
    // One text spells <s>; as an added token of the reference it differs from a GGUF or SentencePiece control
    // token.
    const auto got = tokenizer.Encode(text, {.add_special_tokens = false});
    ASSERT_TRUE(got.ok()) << got.status();
    if (model == "llama2pkg" && text.find("<s>") != std::string::npos) continue;
    EXPECT_EQ(*got, ids) << model << ", text " << i << ": '" << text << "'";
    EXPECT_EQ(tokenizer.Decode(ids, {.skip_special_tokens = false}), want["dec"].get<std::string>()) << text;
    EXPECT_EQ(tokenizer.Decode(ids), want["dec_skip"].get<std::string>()) << text;
    const auto with_special = tokenizer.Encode(text);
    EXPECT_EQ(*with_special, want["ids_sp"].get<std::vector<TokenId>>()) << text;
    ++compared;
  }
  EXPECT_GE(compared, 45u) << model;
}

TEST(TokenizerVectors, Llama31IdsComeFromTheLlamaBpeVocabulary) {
  if (TokenizersDir().empty()) GTEST_SKIP() << "no shared data folder (PACELINE_SHARED)";
  const auto tokenizer = Open(TokenizersDir() + "/ggml-vocab-llama-bpe.gguf");
  ASSERT_NE(tokenizer, nullptr);
  ExpectVectors(*tokenizer, "llama3_1", 128256);
}

TEST(TokenizerVectors, Qwen3IdsComeFromTheQwen2Vocabulary) {
  if (TokenizersDir().empty()) GTEST_SKIP() << "no shared data folder (PACELINE_SHARED)";
  const auto tokenizer = Open(TokenizersDir() + "/ggml-vocab-qwen2.gguf");
  ASSERT_NE(tokenizer, nullptr);
  ExpectVectors(*tokenizer, "qwen3", 151646);
}

TEST(TokenizerVectors, MistralIdsComeFromItsSentencePieceFile) {
  if (TokenizersDir().empty()) GTEST_SKIP() << "no shared data folder (PACELINE_SHARED)";
  const auto tokenizer = Open(TokenizersDir() + "/mistral_v1");
  ASSERT_NE(tokenizer, nullptr);
  ExpectVectors(*tokenizer, "llama2pkg", 32000);
}

TEST(TokenizerVectors, B103_AccentsDashAndEmojiEqualTheReference) {
  if (TokenizersDir().empty()) GTEST_SKIP() << "no shared data folder (PACELINE_SHARED)";
  const auto tokenizer = Open(TokenizersDir() + "/ggml-vocab-llama-bpe.gguf");
  ASSERT_NE(tokenizer, nullptr);

  const std::vector<TokenId> ids = PlainIds(*tokenizer, "Hello world! Café déjà vu — 123 😊");

  EXPECT_THAT(ids, ElementsAre(9906, 1917, 0, 66771, 46939, 33614, 2001, 220, 4513, 27623, 232));
}

TEST(TokenizerVectors, B104_FalconIdsOfDigitsEqualTheReference) {
  if (TokenizersDir().empty()) GTEST_SKIP() << "no shared data folder (PACELINE_SHARED)";
  const auto tokenizer = Open(TokenizersDir() + "/ggml-vocab-falcon.gguf");
  ASSERT_NE(tokenizer, nullptr);

  EXPECT_THAT(PlainIds(*tokenizer, "1234567 and 12,345.67"),
              ElementsAre(10963, 27681, 34, 273, 204, 928, 23, 29094, 25, 6373));
}

TEST(TokenizerVectors, B106_OneTokenPerDigitWhereTheFamilyCutsDigits) {
  if (TokenizersDir().empty()) GTEST_SKIP() << "no shared data folder (PACELINE_SHARED)";
  const auto tokenizer = Open(TokenizersDir() + "/ggml-vocab-starcoder.gguf");
  ASSERT_NE(tokenizer, nullptr);

  EXPECT_THAT(PlainIds(*tokenizer, "3.14159 100000"),
              ElementsAre(56, 51, 54, 57, 54, 58, 62, 244, 54, 53, 53, 53, 53, 53));
}

TEST(TokenizerVectors, B107_LetterBehindBosHasItsPrefixSpace) {
  if (TokenizersDir().empty()) GTEST_SKIP() << "no shared data folder (PACELINE_SHARED)";
  const auto tokenizer = Open(TokenizersDir() + "/mistral_v1");
  ASSERT_NE(tokenizer, nullptr);
  const auto ids = tokenizer->Encode("<s>G", {.add_special_tokens = false});
  ASSERT_TRUE(ids.ok());

  EXPECT_THAT(*ids, ElementsAre(1, 420));
}

class RealModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::RealModelPath().empty()) GTEST_SKIP() << "no real model (PACELINE_TEST_MODEL)";
    auto text = OpenTokenizer(testing::RealModelPath());
    ASSERT_TRUE(text.ok()) << text.status();
    text_ = *std::move(text);
  }
  double SecondsToEncode(const std::string& text) {
    const auto start = std::chrono::steady_clock::now();
    const auto ids = text_.tokenizer->Encode(text);
    EXPECT_TRUE(ids.ok() && !ids->empty());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  ModelText text_;
};

TEST_F(RealModel, CarriesTemplateSpecialTokensAndIdsOfTheReference) {
  EXPECT_EQ(text_.bos_text, "<|im_start|>");
  EXPECT_EQ(text_.eos_text, "<|im_end|>");
  EXPECT_NE(text_.chat_template.find("<|im_start|>"), std::string::npos);
  EXPECT_FALSE(text_.tokenizer->adds_bos());
  const std::string text = "What is 2+2? Ärger — 1234567 😊";
  const std::vector<TokenId> ids = PlainIds(*text_.tokenizer, text);
  EXPECT_THAT(ids, ElementsAre(1780, 314, 216, 34, 27, 34, 47, 5549, 222, 98, 2008, 1841, 216, 33, 34, 35, 36,
                               37, 38, 39, 40303, 228));
  EXPECT_EQ(text_.tokenizer->Decode(ids), text);
}

TEST_F(RealModel, B118_RepeatedWordAndLongPromptAreFast) {
  std::string us;
  for (int i = 0; i < 20'000; ++i) us += "us";
  std::string prompt;
  while (prompt.size() < 100'000)
    prompt += "The quick brown fox, aged 12, jumps over the lazy dog's 3rd hedge.\n";

  const double us_seconds = SecondsToEncode(us);
  const double prompt_seconds = SecondsToEncode(prompt);

  RecordProperty("us_ms", std::to_string(us_seconds * 1e3));
  RecordProperty("prompt_ms", std::to_string(prompt_seconds * 1e3));
  std::printf("us x 20000: %.1f ms; 100 kB prompt: %.1f ms\n", us_seconds * 1e3, prompt_seconds * 1e3);
  EXPECT_LT(us_seconds, 1.0);
  EXPECT_LT(prompt_seconds, 1.0);
}

}  // namespace
}  // namespace paceline
