#include "common/model/special_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/shared_data.h"
#include "tests/support/tiny_llama.h"
#include "tests/unit/model/model_test_util.h"

namespace paceline {
namespace {

using ::paceline::testing::GgufBuilder;
using ::paceline::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SpecialIdsTest : public ::testing::Test {
 protected:
  StatusOr<ModelDefaults> Gguf(const GgufBuilder& builder) {
    return LoadModelDefaults(dir_.Write("m.gguf", builder.Build()));
  }
  StatusOr<ModelDefaults> Folder(const std::string& config, const std::string& generation = "",
                                 const std::string& tokenizer = "") {
    dir_.Write("hf/config.json", config);
    dir_.Write("hf/generation_config.json", generation.empty() ? "{}" : generation);
    dir_.Write("hf/tokenizer_config.json", tokenizer.empty() ? "{}" : tokenizer);
    return LoadModelDefaults(dir_.Path("hf"));
  }
  TempDir dir_;
};

TEST_F(SpecialIdsTest, GgufEndIdsAreTheKeysAndTheKnownEndTexts) {
  GgufBuilder builder;
  builder.AddString("tokenizer.ggml.model", "gpt2");
  builder.AddStrings("tokenizer.ggml.tokens", {"a", "<s>", "</s>", "<|im_end|>", "b", "<|eot_id|>", "c"});
  builder.AddI32s("tokenizer.ggml.token_type", {1, 3, 1, 3, 1, 3, 1});
  builder.AddU32("tokenizer.ggml.bos_token_id", 1).AddU32("tokenizer.ggml.eos_token_id", 4);
  builder.AddU32("tokenizer.ggml.eot_token_id", 6).AddU32("tokenizer.ggml.eom_token_id", 4294967295u);

  const auto defaults = Gguf(builder);

  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->ids.bos, 1u);
  EXPECT_THAT(defaults->ids.eos, ElementsAre(3u, 4u, 5u, 6u)) << "</s> is a normal token here";
  EXPECT_TRUE(defaults->ids.IsEos(5));
  EXPECT_FALSE(defaults->ids.IsEos(2));
}

TEST_F(SpecialIdsTest, GgufDefaultsDependOnTheTokenizer) {
  GgufBuilder builder;
  builder.AddString("tokenizer.ggml.model", "llama")
      .AddStrings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>"});
  EXPECT_EQ(Gguf(builder)->ids, (SpecialIds{1, {2}}));

  GgufBuilder byte_level;
  byte_level.AddString("tokenizer.ggml.model", "gpt2").AddStrings("tokenizer.ggml.tokens", {"a", "b", "c"});
  EXPECT_EQ(Gguf(byte_level)->ids, SpecialIds()) << "id 11 is not in this vocabulary";
  EXPECT_EQ(Gguf(GgufBuilder())->ids, SpecialIds()) << "no tokenizer at all";
}

TEST_F(SpecialIdsTest, GgufIdsOutsideTheVocabularyAreRefused) {
  GgufBuilder builder;
  builder.AddString("tokenizer.ggml.model", "gpt2").AddStrings("tokenizer.ggml.tokens", {"a", "b", "c"});
  builder.AddU32("tokenizer.ggml.eos_token_id", 3);
  EXPECT_THAT(Message(Gguf(builder).status()), HasSubstr("tokenizer.ggml.eos_token_id: id 3 is outside"));
}

TEST_F(SpecialIdsTest, FolderEndIdsComeFromGenerationConfigFirst) {
  const std::string config = R"({"vocab_size":128256,"bos_token_id":128000,"eos_token_id":128001})";
  EXPECT_EQ(Folder(config)->ids, (SpecialIds{128000, {128001}}));
  const auto instruct = Folder(config, R"({"eos_token_id":[128001,128009,128008]})");
  EXPECT_THAT(instruct->ids.eos, ElementsAre(128001u, 128008u, 128009u));
  const auto with_tokenizer = Folder(
      config, "",
      R"({"eos_token":{"content":"<|eot_id|>"},"added_tokens_decoder":{"128009":{"content":"<|eot_id|>"}}})");
  EXPECT_THAT(with_tokenizer->ids.eos, ElementsAre(128001u, 128009u));
  EXPECT_THAT(Folder(R"({"eos_token_id":null})")->ids.eos, IsEmpty());
}

TEST_F(SpecialIdsTest, FolderIdsThatAreNoIdsAreRefused) {
  for (const char* value : {"-1", "128256", "\"2\"", "[1,[2]]", "1.5", "true"}) {
    const auto defaults = Folder(std::string(R"({"vocab_size":128256,"eos_token_id":)") + value + "}");
    EXPECT_THAT(Message(defaults.status()), HasSubstr("eos_token_id")) << value;
  }
}

TEST_F(SpecialIdsTest, GenerationDefaultsAreReadAndBounded) {
  const auto defaults =
      Folder("{}", R"({"do_sample":true,"temperature":0.6,"top_p":0.9,"top_k":50,"min_p":0.05,
                                        "repetition_penalty":1.1,"max_new_tokens":100})");
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->generation, (GenerationDefaults{0.6, 0.9, 50, 0.05, 1.1, 100}));
  EXPECT_EQ(Folder("{}")->generation, GenerationDefaults());
  EXPECT_EQ(Folder("{}", R"({"top_k":-1})")->generation.top_k, 0u);

  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"temperature", "-0.1"},
                                                        {"top_p", "0"},
                                                        {"top_p", "1.1"},
                                                        {"min_p", "2"},
                                                        {"top_k", "-2"},
                                                        {"repetition_penalty", "0"},
                                                        {"max_new_tokens", "0"},
                                                        {"temperature", "\"hot\""}}) {
    const auto refused = Folder("{}", "{\"" + key + "\":" + value + "}");
    EXPECT_THAT(Message(refused.status()), HasSubstr(key)) << value;
  }
}

TEST_F(SpecialIdsTest, ReadsTheRealModel) {
  const std::string path = testing::RealModelPath();
  if (path.empty()) GTEST_SKIP() << "no real model: deploy/fetch-model lays it into models/";
  const auto defaults = LoadModelDefaults(path);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->ids, (SpecialIds{1, {0, 2}})) << "<|endoftext|> and <|im_end|>";
}

}  // namespace
}  // namespace paceline
