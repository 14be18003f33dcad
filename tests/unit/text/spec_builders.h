// Tiny tokenizers for tests: a byte-level BPE over a handful of merges, and a SentencePiece-like one with
// byte fallback.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/text/tokenizer.h"

namespace paceline::testing {

// 256 single bytes (ids 0-255), then one token for each merge, then `specials` (control tokens).
TokenizerSpec ByteLevelSpec(const std::vector<std::pair<std::string, std::string>>& merges,
                            const std::vector<std::string>& specials);

// <unk> 0, <s> 1, </s> 2, bytes 3-258, then `pieces`, the first of them with the best score. A space is
// written U+2581.
TokenizerSpec SentencePieceSpec(const std::vector<std::string>& pieces);

// Fails the test and returns null when the spec is refused.
std::unique_ptr<Tokenizer> MakeTokenizer(TokenizerSpec spec);

}  // namespace paceline::testing
