// Readers of tokenizer files: what they take, and what they refuse by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "common/text/open_tokenizer.h"
#include "common/text/tokenizer_loaders.h"
#include "tests/unit/text/spec_builders.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Json(const std::string& sections) {
  return R"({"version": "1.0", "added_tokens": [
      {"id": 5, "content": "<s>", "special": true}, {"id": 6, "content": "<think>", "special": false}],)" +
         sections + R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġab": 4},
      "merges": ["a b", ["Ġ", "ab"]]}})";
}

const char kByteLevel[] =
    R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},)";

std::unique_ptr<Tokenizer> FromJson(const std::string& json, const std::string& config = "") {
  auto spec = TokenizerSpecFromTokenizerJson(json, config);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? testing::MakeTokenizer(*std::move(spec)) : nullptr;
}

std::string Refusal(const std::string& json, const std::string& config = "") {
  const auto spec = TokenizerSpecFromTokenizerJson(json, config);
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(Message(spec.status()));
}

TEST(TokenizerJson, ReadsBothFormsOfMergesAndNonSpecialAddedTokens) {
  const auto tokenizer = FromJson(Json(kByteLevel));

  const auto ids = tokenizer->Encode("ab ab<think><s>", {.parse_special_tokens = false});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(std::vector<TokenId>(ids->begin(), ids->begin() + 3), (std::vector<TokenId>{2, 4, 6}));
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{2, 4, 6, 5}), "ab ab<think>");
}

TEST(TokenizerJson, TemplateGivesBosUnlessTheClassLeavesItToTheConfig) {
  const std::string post = R"("post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}},)";
  const std::string llama = R"({"tokenizer_class": "LlamaTokenizerFast", "bos_token": {"content": "<s>"}})";
  const std::string off =
      R"({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "add_bos_token": false})";
  const std::string other = R"({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"})";

  EXPECT_THAT(*FromJson(Json(kByteLevel + post))->Encode("a"), ElementsAre(5, 0));
  EXPECT_THAT(*FromJson(Json(kByteLevel))->Encode("a"), ElementsAre(0));
  EXPECT_THAT(*FromJson(Json(kByteLevel), llama)->Encode("a"), ElementsAre(5, 0));
  EXPECT_THAT(*FromJson(Json(kByteLevel + post), off)->Encode("a"), ElementsAre(0));
  EXPECT_THAT(*FromJson(Json(kByteLevel), other)->Encode("a"), ElementsAre(0));
}

TEST(TokenizerJson, WhatItDoesNotKnowIsRefusedByName) {
  EXPECT_THAT(Refusal(Json(R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": ""},)")),
              HasSubstr("Precompiled"));
  EXPECT_THAT(Refusal(Json(R"("pre_tokenizer": {"type": "UnicodeScripts"},)")), HasSubstr("UnicodeScripts"));
  EXPECT_THAT(Refusal(Json(R"("decoder": {"type": "CTC"},)")), HasSubstr("CTC"));
  EXPECT_THAT(Refusal(Json(R"("post_processor": {"type": "Novel"},)")), HasSubstr("Novel"));
  EXPECT_THAT(Refusal(R"({"model": {"type": "Novel", "vocab": {}}})"), HasSubstr("Novel"));
  EXPECT_THAT(Refusal(Json(""), R"({"bos_token": "<no>"})"), HasSubstr("<no>"));
  EXPECT_THAT(Refusal(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}})"),
              HasSubstr("two tokens"));
  EXPECT_THAT(Refusal(R"({"model": {"type": "BPE", "vocab": {"a": 4294967296}, "merges": []}})"),
              HasSubstr("4294967296"));
}

TEST(TokenizerJson, CutFilesAreRefused) {
  const std::string whole = Json(kByteLevel);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(TokenizerSpecFromTokenizerJson(whole.substr(0, bytes), "").ok()) << bytes;
  }
}

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void PutBytes(uint32_t field, std::string_view bytes, std::string* out) {
  PutVarint(field << 3 | 2, out);
  PutVarint(bytes.size(), out);
  out->append(bytes);
}

void PutNumber(uint32_t field, uint64_t value, std::string* out) {
  PutVarint(field << 3, out);
  PutVarint(value, out);
}

std::string Piece(std::string_view text, float score, TokenType type) {
  std::string piece;
  PutBytes(1, text, &piece);
  PutVarint(2 << 3 | 5, &piece);
  char bytes[4];
  std::memcpy(bytes, &score, 4);
  piece.append(bytes, 4);
  PutNumber(3, static_cast<uint64_t>(type), &piece);
  std::string out;
  PutBytes(1, piece, &out);
  return out;
}

std::string SentencePieceFile(std::string_view charsmap, bool collapse) {
  std::string file = Piece("<unk>", 0, TokenType::kUnknown) + Piece("<s>", 0, TokenType::kControl) +
                     Piece("</s>", 0, TokenType::kControl) + Piece("\u2581a", -1, TokenType::kNormal) +
                     Piece("\u2581", -2, TokenType::kNormal) + Piece("a", -3, TokenType::kNormal);
  std::string trainer;
  PutNumber(3, 2, &trainer);
  PutBytes(2, trainer, &file);
  std::string normalizer;
  PutBytes(1, "nmt_nfkc", &normalizer);
  PutBytes(2, charsmap, &normalizer);
  PutNumber(4, collapse ? 1 : 0, &normalizer);
  PutBytes(3, normalizer, &file);
  return file;
}

TEST(SentencePieceFile, ReadsPiecesIdsAndWhiteSpaceRules) {
  auto keep = TokenizerSpecFromSentencePiece(SentencePieceFile("", false));
  auto collapse = TokenizerSpecFromSentencePiece(SentencePieceFile("", true));
  ASSERT_TRUE(keep.ok() && collapse.ok());

  EXPECT_THAT(*testing::MakeTokenizer(*keep)->Encode("a  a"), ElementsAre(1, 3, 4, 3));
  EXPECT_THAT(*testing::MakeTokenizer(*collapse)->Encode(" a  a "), ElementsAre(1, 3, 3));
  EXPECT_EQ(keep->eos, 2);
}

TEST(SentencePieceFile, NormalizationTableIsRefusedByName) {
  const auto spec = TokenizerSpecFromSentencePiece(SentencePieceFile("table", false));
  EXPECT_THAT(std::string(Message(spec.status())), HasSubstr("nmt_nfkc"));
}

TEST(SentencePieceFile, DamagedFilesAreRefusedOrReadButNeverFault) {
  const std::string whole = SentencePieceFile("", false);
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    if (round % 2 == 0) damaged.resize(random() % whole.size());
    if (!damaged.empty()) damaged[random() % damaged.size()] = static_cast<char>(random());
    auto spec = TokenizerSpecFromSentencePiece(damaged);
    if (!spec.ok()) continue;
    const auto tokenizer = Tokenizer::Create(*std::move(spec));
    if (tokenizer.ok()) (*tokenizer)->Encode("a b").IgnoreError();
  }
}

class FolderTest : public ::testing::Test {
 protected:
  FolderTest()
      : dir_(std::filesystem::path(::testing::TempDir()) /
             ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_ / "additional_chat_templates");
  }
  ~FolderTest() override { std::filesystem::remove_all(dir_); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(dir_ / name) << text; }

  std::filesystem::path dir_;
};

TEST_F(FolderTest, TemplatesComeFromTheMostPreferredPlace) {
  Write("tokenizer.json", Json(kByteLevel));
  Write("tokenizer_config.json",
        R"({"bos_token": "<s>", "chat_template": [{"name": "default", "template": "config"},
            {"name": "tool_use", "template": "tools"}]})");
  auto text = OpenTokenizer(dir_.string());
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->chat_template, "config");
  EXPECT_EQ(text->bos_text, "<s>");
  EXPECT_EQ(text->eos_text, "");
  EXPECT_EQ(*text->Template("tool_use"), "tools");
  EXPECT_EQ(*text->Template("other"), "config");

  Write("chat_template.json", R"({"chat_template": "json"})");
  EXPECT_EQ(OpenTokenizer(dir_.string())->chat_template, "json");
  Write("chat_template.jinja", "jinja");
  Write("additional_chat_templates/rag.jinja", "rag");
  text = OpenTokenizer(dir_.string());
  EXPECT_EQ(text->chat_template, "jinja");
  EXPECT_EQ(*text->Template("rag"), "rag");
}

TEST_F(FolderTest, SentencePieceFileIsReadWhereThereIsNoTokenizerJson) {
  const std::string missing(Message(OpenTokenizer(dir_.string()).status()));
  EXPECT_THAT(missing, HasSubstr("tokenizer.model"));

  Write("tokenizer.model", SentencePieceFile("", false));
  const auto text = OpenTokenizer(dir_.string());
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->Template("any"), nullptr);
  EXPECT_EQ(text->bos_text, "<s>");
}

}  // namespace
}  // namespace paceline
