// WordPiece (greedy longest prefix) and WordLevel (a word is a token or unknown).

#include <algorithm>

#include "common/text/token_model.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

TextToId IdsOf(const TokenizerSpec& spec) {
  TextToId ids;
  ids.reserve(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!spec.tokens[id].empty()) ids.try_emplace(spec.tokens[id], static_cast<TokenId>(id));
  }
  return ids;
}

class WordPieceModel : public TokenModel {
 public:
  explicit WordPieceModel(const TokenizerSpec& spec)
      : ids_(IdsOf(spec)),
        prefix_(spec.continuing_prefix),
        chars_max_(spec.word_chars_max),
        unknown_(*spec.unknown) {
    for (const std::string& token : spec.tokens) bytes_max_ = std::max(bytes_max_, token.size());
  }

  Status Encode(std::string_view split, std::vector<TokenId>* ids) const override {
    std::u32string characters;
    DecodeUtf8(split, &characters);
    std::vector<TokenId> word;
    for (size_t at = 0; at < split.size() && characters.size() <= chars_max_;) {
      const size_t end = LongestToken(split, at, &word);
      if (end == at) {
        word.clear();
        break;
      }
      at = end;
    }
    if (word.empty()) word.push_back(unknown_);
    ids->insert(ids->end(), word.begin(), word.end());
    return OkStatus();
  }

 private:
  size_t LongestToken(std::string_view split, size_t at, std::vector<TokenId>* word) const {
    const std::string lead = at > 0 ? prefix_ : "";
    for (size_t end = std::min(split.size(), at + bytes_max_); end > at; --end) {
      const auto it = ids_.find(lead + std::string(split.substr(at, end - at)));
      if (it == ids_.end()) continue;
      word->push_back(it->second);
      return end;
    }
    return at;
  }

  TextToId ids_;
  std::string prefix_;
  size_t chars_max_;
  size_t bytes_max_ = 0;
  TokenId unknown_;
};

class WordLevelModel : public TokenModel {
 public:
  explicit WordLevelModel(const TokenizerSpec& spec) : ids_(IdsOf(spec)), unknown_(*spec.unknown) {}

  Status Encode(std::string_view split, std::vector<TokenId>* ids) const override {
    const auto it = ids_.find(split);
    ids->push_back(it == ids_.end() ? unknown_ : it->second);
    return OkStatus();
  }

 private:
  TextToId ids_;
  TokenId unknown_;
};

Status WantUnknown(const TokenizerSpec& spec, std::string_view model) {
  if (spec.unknown) return OkStatus();
  return InvalidArgumentError("tokenizer: a {} model wants an unknown token, found none", model);
}

}  // namespace

StatusOr<std::unique_ptr<TokenModel>> MakeWordPieceModel(const TokenizerSpec& spec) {
  RETURN_IF_ERROR(WantUnknown(spec, "WordPiece"));
  return std::make_unique<WordPieceModel>(spec);
}

StatusOr<std::unique_ptr<TokenModel>> MakeWordLevelModel(const TokenizerSpec& spec) {
  RETURN_IF_ERROR(WantUnknown(spec, "WordLevel"));
  return std::make_unique<WordLevelModel>(spec);
}

}  // namespace paceline
