// Finds added tokens (control tokens, user-defined tokens) in a text: leftmost first, the longest of those.
//
// Built once; immutable, any thread. A byte trie: a position costs at most the longest token.
//
//   std::vector<TextPiece> pieces = matcher.Cut("<s>Hi", /*parse_special=*/true);   // {id 1}, {"Hi"}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/text/tokenizer_spec.h"

namespace paceline {

// Either an added token or a stretch of text between them (never empty).
struct TextPiece {
  std::optional<TokenId> token;
  std::string_view text;
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  // Tokens with empty content match nothing. The strings are copied.
  explicit AddedTokenMatcher(const std::vector<AddedToken>& tokens);

  bool empty() const { return tokens_.empty(); }

  // `utf8` is valid and outlives the result. Without parse_special a special token found in the text stays
  // text (and what it spans is not searched again); other added tokens are found either way.
  std::vector<TextPiece> Cut(std::string_view utf8, bool parse_special) const;

 private:
  struct Hit {
    size_t begin = 0;
    size_t end = 0;
    const AddedToken* token = nullptr;
  };
  std::optional<Hit> LongestAt(std::string_view utf8, size_t at) const;

  std::vector<AddedToken> tokens_;
  absl::flat_hash_map<uint64_t, uint32_t> edges_;  // node << 8 | byte -> node; node 0 is the root
  std::vector<int32_t> token_at_node_;             // index into tokens_, -1 = none
  std::vector<bool> starts_token_ = std::vector<bool>(256);
};

}  // namespace paceline
