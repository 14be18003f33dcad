#include "common/text/token_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text/unicode.h"

namespace paceline {

StatusOr<std::unique_ptr<TokenModel>> MakeTokenModel(const TokenizerSpec& spec, bool byte_level) {
  if (byte_level && spec.model != TokenizerModelKind::kBpe) {
    return InvalidArgumentError("tokenizer: ByteLevel pre-tokenizer wants a BPE model, found another kind");
  }
  switch (spec.model) {
    case TokenizerModelKind::kBpe:
      return MakeBpeModel(spec, byte_level);
    case TokenizerModelKind::kSentencePieceBpe:
      return MakeSentencePieceBpeModel(spec);
    case TokenizerModelKind::kUnigram:
      return MakeUnigramModel(spec);
    case TokenizerModelKind::kWordPiece:
      return MakeWordPieceModel(spec);
    case TokenizerModelKind::kWordLevel:
      return MakeWordLevelModel(spec);
  }
  return InternalError("tokenizer: model kind {}", static_cast<int>(spec.model));
}

std::string ByteTokenText(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

int ParseByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'A' && c <= 'F')) return -1;
    value = value * 16 + (digit ? c - '0' : c - 'A' + 10);
  }
  return value;
}

UnknownText::UnknownText(const TokenizerSpec& spec) : unknown_(spec.unknown), fuse_(spec.fuse_unknown) {
  if (!spec.byte_fallback) return;
  byte_ids_.assign(256, -1);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const int byte = ParseByteToken(spec.tokens[id]);
    if (byte >= 0) byte_ids_[static_cast<size_t>(byte)] = static_cast<TokenId>(id);
  }
}

void UnknownText::Append(std::string_view character, bool* after_unknown, std::vector<TokenId>* ids) const {
  const auto id_of = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  if (!byte_ids_.empty() &&
      std::all_of(character.begin(), character.end(), [&](char c) { return id_of(c) >= 0; })) {
    for (const char c : character) ids->push_back(id_of(c));
    *after_unknown = false;
    return;
  }
  if (!unknown_) return;
  if (!(fuse_ && *after_unknown)) ids->push_back(*unknown_);
  *after_unknown = true;
}

}  // namespace paceline
