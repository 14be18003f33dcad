#include "tests/unit/text/spec_builders.h"

#include <gtest/gtest.h>

#include "common/text/byte_alphabet.h"
#include "common/text/unicode.h"

namespace paceline::testing {
namespace {

void Add(std::string text, TokenType type, double score, TokenizerSpec* spec) {
  spec->tokens.push_back(std::move(text));
  spec->types.push_back(type);
  if (spec->model == TokenizerModelKind::kSentencePieceBpe) spec->scores.push_back(score);
}

void AddControl(const std::string& text, TokenizerSpec* spec) {
  spec->added_tokens.push_back(
      {.id = static_cast<TokenId>(spec->tokens.size()), .content = text, .special = true});
  Add(text, TokenType::kControl, 0, spec);
}

}  // namespace

TokenizerSpec ByteLevelSpec(const std::vector<std::pair<std::string, std::string>>& merges,
                            const std::vector<std::string>& specials) {
  TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    AppendUtf8(AlphabetOfByte(static_cast<uint8_t>(byte)), &text);
    Add(text, TokenType::kNormal, 0, &spec);
  }
  for (const auto& [left, right] : merges) Add(left + right, TokenType::kNormal, 0, &spec);
  for (const std::string& text : specials) AddControl(text, &spec);
  spec.merges = merges;
  spec.pre_tokenizer = {{.kind = PreTokenizerStep::Kind::kByteLevel}};
  spec.decoder = {{.kind = DecoderStep::Kind::kByteLevel}};
  return spec;
}

TokenizerSpec SentencePieceSpec(const std::vector<std::string>& pieces) {
  const std::string mark = "\u2581";
  TokenizerSpec spec;
  spec.model = TokenizerModelKind::kSentencePieceBpe;
  for (const char* text : {"<unk>", "<s>", "</s>"}) AddControl(text, &spec);
  spec.types[0] = TokenType::kUnknown;
  for (int byte = 0; byte < 256; ++byte) {
    Add(ByteTokenText(static_cast<uint8_t>(byte)), TokenType::kByte, 0, &spec);
  }
  for (const std::string& piece : pieces) {
    Add(piece, TokenType::kNormal, -static_cast<double>(spec.tokens.size()), &spec);
  }
  spec.unknown = 0;
  spec.bos = 1;
  spec.eos = 2;
  spec.prefix = {1};
  spec.byte_fallback = true;
  spec.normalizer = {{.kind = NormalizerStep::Kind::kPrepend, .content = mark},
                     {.kind = NormalizerStep::Kind::kReplace, .pattern = " ", .content = mark}};
  spec.decoder = {{.kind = DecoderStep::Kind::kReplace, .pattern = mark, .content = " "},
                  {.kind = DecoderStep::Kind::kByteFallback},
                  {.kind = DecoderStep::Kind::kFuse},
                  {.kind = DecoderStep::Kind::kStrip, .content = " ", .start_count = 1}};
  return spec;
}

std::unique_ptr<Tokenizer> MakeTokenizer(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::Create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

}  // namespace paceline::testing
