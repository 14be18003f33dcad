// The algorithm that turns one split into token ids: BPE, SentencePiece BPE, unigram, WordPiece, WordLevel.
//
// Made from a spec that Tokenizer::Create has checked (ids inside the vocabulary, lengths equal). Immutable:
// any thread may encode. A split is UTF-8, or raw bytes when the pre-tokenizer is byte-level. All are O(n log
// n) or better in the length of the split, because some models cut nothing and the split is the whole prompt.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<TokenModel> model, MakeTokenModel(spec, /*byte_level=*/true));
//   RETURN_IF_ERROR(model->Encode("Hello", &ids));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"
#include "common/text/tokenizer_spec.h"

namespace paceline {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the ids of one split (not empty, at most kSplitBytesMax).
  virtual Status Encode(std::string_view split, std::vector<TokenId>* ids) const = 0;
};

// Positions inside a split are 32-bit.
inline constexpr size_t kSplitBytesMax = size_t{1} << 30;

StatusOr<std::unique_ptr<TokenModel>> MakeTokenModel(const TokenizerSpec& spec, bool byte_level);

StatusOr<std::unique_ptr<TokenModel>> MakeBpeModel(const TokenizerSpec& spec, bool byte_level);
StatusOr<std::unique_ptr<TokenModel>> MakeSentencePieceBpeModel(const TokenizerSpec& spec);
StatusOr<std::unique_ptr<TokenModel>> MakeUnigramModel(const TokenizerSpec& spec);
StatusOr<std::unique_ptr<TokenModel>> MakeWordPieceModel(const TokenizerSpec& spec);
StatusOr<std::unique_ptr<TokenModel>> MakeWordLevelModel(const TokenizerSpec& spec);

// What the model shows for text it has no token for: its bytes as <0xHH> tokens if the model has all of them,
// else the unknown token (one for several in a row if fuse_unknown), else nothing.
class UnknownText {
 public:
  explicit UnknownText(const TokenizerSpec& spec);
  // Appends for one character. `after_unknown` says whether the last id was an unknown one, and is kept up to
  // date.
  void Append(std::string_view character, bool* after_unknown, std::vector<TokenId>* ids) const;

 private:
  std::vector<TokenId> byte_ids_;  // empty without byte fallback; -1 = no such token
  std::optional<TokenId> unknown_;
  bool fuse_ = false;
};

// "<0x0A>" for 10, and back (-1 for any other text).
std::string ByteTokenText(uint8_t byte);
int ParseByteToken(std::string_view text);

// Hash that lets a map of strings be asked with a view (Debian's Abseil knows only its own string_view).
struct ViewHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
// text -> id; keys are copies.
using TextToId = absl::flat_hash_map<std::string, TokenId, ViewHash, std::equal_to<>>;

}  // namespace paceline
