// Byte-pair encoding by merge rank (Sennrich et al., arXiv 1508.07909), on bytes or on characters.

#include <algorithm>
#include <array>
#include <queue>

#include "common/text/byte_alphabet.h"
#include "common/text/token_model.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

struct Merge {
  uint32_t rank = 0;
  TokenId result = 0;
};

uint64_t PairKey(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

struct Symbol {
  TokenId id = 0;
  int32_t previous = -1;
  int32_t next = -1;
  bool alive = true;
};

struct Candidate {
  uint32_t rank = 0;
  int32_t left = 0;
  TokenId result = 0;
  // Lowest rank first, then leftmost: std::priority_queue keeps the greatest on top.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

class BpeModel : public TokenModel {
 public:
  BpeModel(const TokenizerSpec& spec, bool byte_level)
      : byte_level_(byte_level), ignore_merges_(spec.ignore_merges), unknown_(spec) {
    byte_ids_.fill(-1);
  }

  Status Load(const TokenizerSpec& spec) {
    TextToId id_of_text;
    id_of_text.reserve(spec.tokens.size());
    // Two rounds: what the model itself makes, then tokens that only exist to be found in the text.
    for (const bool added : {false, true}) {
      for (size_t id = 0; id < spec.tokens.size(); ++id) {
        const bool is_added =
            spec.types[id] == TokenType::kControl || spec.types[id] == TokenType::kUserDefined;
        if (is_added != added || spec.tokens[id].empty()) continue;
        if (id_of_text.try_emplace(spec.tokens[id], static_cast<TokenId>(id)).second) {
          AddSymbolText(spec.tokens[id], static_cast<TokenId>(id), added);
        }
      }
    }
    return LoadMerges(spec, id_of_text);
  }

  Status Encode(std::string_view split, std::vector<TokenId>* ids) const override {
    if (ignore_merges_) {
      if (const auto whole = id_of_split_.find(split); whole != id_of_split_.end()) {
        ids->push_back(whole->second);
        return OkStatus();
      }
    }
    std::vector<TokenId> start;
    start.reserve(split.size());
    StartSymbols(split, &start);
    MergeAll(start, ids);
    return OkStatus();
  }

 private:
  void AddSymbolText(const std::string& text, TokenId id, bool added) {
    std::string split = text;
    if (byte_level_) {
      const std::optional<std::string> bytes = BytesOfAlphabetText(text);
      if (!bytes) return;
      split = *bytes;
      TokenId& byte_id = byte_ids_[static_cast<unsigned char>(split[0])];
      if (split.size() == 1 && byte_id < 0) byte_id = id;
    }
    // A split is looked up as a whole with ignore_merges, and by character in a model that is not byte-level.
    if (!added && (ignore_merges_ || (!byte_level_ && split.size() == Utf8Length(split[0])))) {
      id_of_split_.try_emplace(std::move(split), id);
    }
  }

  Status LoadMerges(const TokenizerSpec& spec, const TextToId& id_of_text) {
    merges_.reserve(spec.merges.size());
    for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
      const auto& [left, right] = spec.merges[rank];
      const auto left_id = id_of_text.find(left);
      const auto right_id = id_of_text.find(right);
      const auto result = id_of_text.find(left + right);
      if (left_id == id_of_text.end() || right_id == id_of_text.end() || result == id_of_text.end()) {
        return InvalidArgumentError(
            "tokenizer: merge {} ('{}' + '{}') names a token that is not in the vocabulary", rank, left,
            right);
      }
      merges_.insert_or_assign(PairKey(left_id->second, right_id->second),
                               Merge{static_cast<uint32_t>(rank), result->second});
    }
    return OkStatus();
  }

  void StartSymbols(std::string_view split, std::vector<TokenId>* start) const {
    bool after_unknown = false;
    for (size_t at = 0; at < split.size();) {
      const size_t bytes = byte_level_ ? 1 : std::min(Utf8Length(split[at]), split.size() - at);
      const std::string_view character = split.substr(at, bytes);
      at += bytes;
      const TokenId id = IdOfCharacter(character);
      if (id >= 0) {
        start->push_back(id);
        after_unknown = false;
      } else {
        unknown_.Append(character, &after_unknown, start);
      }
    }
  }

  TokenId IdOfCharacter(std::string_view character) const {
    if (byte_level_) return byte_ids_[static_cast<unsigned char>(character[0])];
    const auto it = id_of_split_.find(character);
    return it == id_of_split_.end() ? -1 : it->second;
  }

  void MergeAll(const std::vector<TokenId>& start, std::vector<TokenId>* ids) const {
    std::vector<Symbol> symbols(start.size());
    std::vector<Candidate> storage;
    storage.reserve(start.size() * 2);
    std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(storage));
    const auto push = [&](int32_t left) {
      const int32_t right = symbols[static_cast<size_t>(left)].next;
      if (right < 0) return;
      const auto merge = merges_.find(
          PairKey(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id));
      if (merge != merges_.end()) queue.push({merge->second.rank, left, merge->second.result});
    };
    const auto count = static_cast<int32_t>(start.size());
    for (int32_t i = 0; i < count; ++i) {
      symbols[static_cast<size_t>(i)] = {start[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1,
                                         true};
    }
    for (int32_t i = 0; i + 1 < count; ++i) push(i);

    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      Symbol& left = symbols[static_cast<size_t>(top.left)];
      if (!left.alive || left.next < 0) continue;
      Symbol& right = symbols[static_cast<size_t>(left.next)];
      const auto merge = merges_.find(PairKey(left.id, right.id));
      // Stale: one of the two has been merged since, and the pair now makes something else.
      if (merge == merges_.end() || merge->second.result != top.result) continue;
      left.id = top.result;
      right.alive = false;
      left.next = right.next;
      if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = top.left;
      if (left.previous >= 0) push(left.previous);
      push(top.left);
    }
    for (const Symbol& symbol : symbols) {
      if (symbol.alive) ids->push_back(symbol.id);
    }
  }

  bool byte_level_;
  bool ignore_merges_;
  UnknownText unknown_;
  std::array<TokenId, 256> byte_ids_{};  // byte-level only
  TextToId id_of_split_;
  absl::flat_hash_map<uint64_t, Merge> merges_;
};

}  // namespace

StatusOr<std::unique_ptr<TokenModel>> MakeBpeModel(const TokenizerSpec& spec, bool byte_level) {
  auto model = std::make_unique<BpeModel>(spec, byte_level);
  RETURN_IF_ERROR(model->Load(spec));
  return model;
}

}  // namespace paceline
