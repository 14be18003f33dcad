// tokenizer.ggml.* metadata: what is taken from it, and refusals that name the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/text/open_tokenizer.h"
#include "tests/support/gguf_builder.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using testing::GgufBuilder;
using ::testing::HasSubstr;

GgufBuilder SentencePieceFile() {
  GgufBuilder builder;
  builder.AddString("general.architecture", "llama")
      .AddString("tokenizer.ggml.model", "llama")
      .AddStrings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "\u2581a", "\u2581", "a", "<think>"})
      .AddF32s("tokenizer.ggml.scores", {0, 0, 0, -1, -2, -3, 0})
      .AddI32s("tokenizer.ggml.token_type", {2, 3, 3, 1, 1, 1, 4});
  return builder;
}

class GgufTokenizer : public ::testing::Test {
 protected:
  StatusOr<ModelText> Open(const GgufBuilder& builder) {
    const auto path =
        std::filesystem::path(::testing::TempDir()) /
        (std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + ".gguf");
    std::ofstream(path, std::ios::binary) << builder.Build();
    auto text = OpenTokenizer(path.string());
    std::filesystem::remove(path);
    return text;
  }
  std::string Refusal(const GgufBuilder& builder) {
    const auto text = Open(builder);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(Message(text.status()));
  }
};

TEST_F(GgufTokenizer, SentencePieceDefaultsAreThoseOfTheFormat) {
  const auto text = Open(SentencePieceFile());
  ASSERT_TRUE(text.ok()) << text.status();

  EXPECT_EQ(text->bos_text, "<s>");
  EXPECT_EQ(text->eos_text, "</s>");
  EXPECT_EQ(text->Template("default"), nullptr);
  EXPECT_THAT(*text->tokenizer->Encode("a  a<think></s>"), ElementsAre(1, 3, 4, 3, 6, 2));
  EXPECT_EQ(text->tokenizer->Decode(std::vector<TokenId>{1, 3, 3, 6}), "a a<think>");
}

TEST_F(GgufTokenizer, FlagsOfTheFileWinOverDefaults) {
  GgufBuilder builder = SentencePieceFile();
  builder.AddBool("tokenizer.ggml.add_bos_token", false)
      .AddBool("tokenizer.ggml.add_eos_token", true)
      .AddBool("tokenizer.ggml.add_space_prefix", false)
      .AddString("tokenizer.chat_template", "main")
      .AddStrings("tokenizer.chat_templates", {"tool_use"})
      .AddString("tokenizer.chat_template.tool_use", "tools");
  const auto text = Open(builder);
  ASSERT_TRUE(text.ok()) << text.status();

  EXPECT_THAT(*text->tokenizer->Encode("a a"), ElementsAre(5, 3, 2));
  EXPECT_EQ(text->tokenizer->Decode(std::vector<TokenId>{3}), " a");
  EXPECT_EQ(*text->Template("tool_use"), "tools");
  EXPECT_EQ(*text->Template("rag"), "main");
}

TEST_F(GgufTokenizer, B173_CharsmapOfAnotherTypeIsRefusedByKey) {
  GgufBuilder builder = SentencePieceFile();
  builder.AddStrings("tokenizer.ggml.precompiled_charsmap", {"a"});

  EXPECT_THAT(Refusal(builder), HasSubstr("tokenizer.ggml.precompiled_charsmap"));
}

TEST_F(GgufTokenizer, ContradictionsAreRefusedByKey) {
  GgufBuilder types = SentencePieceFile();
  types.Remove("tokenizer.ggml.token_type").AddI32s("tokenizer.ggml.token_type", {1, 1});
  EXPECT_THAT(Refusal(types), HasSubstr("tokenizer.ggml.token_type: want 7"));

  GgufBuilder kind = SentencePieceFile();
  kind.Remove("tokenizer.ggml.model").AddString("tokenizer.ggml.model", "rwkv");
  EXPECT_THAT(Refusal(kind), HasSubstr("rwkv"));

  GgufBuilder bos = SentencePieceFile();
  bos.AddU32("tokenizer.ggml.bos_token_id", 77);
  EXPECT_THAT(Refusal(bos), HasSubstr("BOS is id 77"));

  GgufBuilder pre;
  pre.AddString("general.architecture", "llama")
      .AddString("tokenizer.ggml.model", "gpt2")
      .AddString("tokenizer.ggml.pre", "unheard-of")
      .AddStrings("tokenizer.ggml.tokens", {"a"})
      .AddStrings("tokenizer.ggml.merges", {});
  EXPECT_THAT(Refusal(pre), HasSubstr("unheard-of"));
}

}  // namespace
}  // namespace paceline
