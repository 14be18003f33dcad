// BPE as SentencePiece runs it: of all neighbours whose text is a token, the pair with the best score is
// merged first.

#include <algorithm>
#include <queue>

#include "common/text/token_model.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

struct Symbol {
  uint32_t begin = 0;
  uint32_t bytes = 0;  // 0 = merged into its left neighbour
  int32_t previous = -1;
  int32_t next = -1;
};

struct Candidate {
  double score = 0;
  int32_t left = 0;
  int32_t right = 0;
  uint32_t bytes = 0;  // of both when queued: another length means one of them has grown
  // Best score first, then leftmost.
  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

class SentencePieceBpeModel : public TokenModel {
 public:
  explicit SentencePieceBpeModel(const TokenizerSpec& spec) : scores_(spec.scores), unknown_(spec) {
    ids_.reserve(spec.tokens.size());
    unused_.resize(spec.tokens.size());
    for (size_t id = 0; id < spec.tokens.size(); ++id) {
      const TokenType type = spec.types[id];
      unused_[id] = type == TokenType::kUnused;
      // Bytes, control tokens and the unknown token are never the result of a merge.
      const bool makes_text =
          type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kUnused;
      if (makes_text && !spec.tokens[id].empty()) ids_.try_emplace(spec.tokens[id], static_cast<TokenId>(id));
    }
  }

  Status Encode(std::string_view split, std::vector<TokenId>* ids) const override {
    std::vector<Symbol> symbols = Characters(split);
    std::priority_queue<Candidate> queue;
    Splits splits;
    for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols.size()); ++i) {
      Push(split, symbols, i, &queue, &splits);
    }
    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      Symbol& left = symbols[static_cast<size_t>(top.left)];
      Symbol& right = symbols[static_cast<size_t>(top.right)];
      if (left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != top.bytes) continue;
      left.bytes = top.bytes;
      right.bytes = 0;
      left.next = right.next;
      if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = top.left;
      if (left.previous >= 0) Push(split, symbols, left.previous, &queue, &splits);
      Push(split, symbols, top.left, &queue, &splits);
    }
    bool after_unknown = false;
    for (const Symbol& symbol : symbols) {
      if (symbol.bytes > 0) Emit(split.substr(symbol.begin, symbol.bytes), splits, &after_unknown, ids);
    }
    return OkStatus();
  }

 private:
  // How an unused token was put together, so that it can be taken apart again.
  using Splits = absl::flat_hash_map<std::string_view, uint32_t, ViewHash, std::equal_to<>>;

  static std::vector<Symbol> Characters(std::string_view split) {
    std::vector<Symbol> symbols;
    symbols.reserve(split.size());
    for (size_t at = 0; at < split.size();) {
      const size_t bytes = std::min(Utf8Length(split[at]), split.size() - at);
      const auto index = static_cast<int32_t>(symbols.size());
      const bool last = at + bytes == split.size();
      symbols.push_back(
          {static_cast<uint32_t>(at), static_cast<uint32_t>(bytes), index - 1, last ? -1 : index + 1});
      at += bytes;
    }
    return symbols;
  }

  void Push(std::string_view split, const std::vector<Symbol>& symbols, int32_t left,
            std::priority_queue<Candidate>* queue, Splits* splits) const {
    const Symbol& a = symbols[static_cast<size_t>(left)];
    if (a.next < 0) return;
    const Symbol& b = symbols[static_cast<size_t>(a.next)];
    const std::string_view text = split.substr(a.begin, a.bytes + b.bytes);
    const auto it = ids_.find(text);
    if (it == ids_.end()) return;
    queue->push({scores_[static_cast<size_t>(it->second)], left, a.next, a.bytes + b.bytes});
    if (unused_[static_cast<size_t>(it->second)]) splits->insert_or_assign(text, a.bytes);
  }

  // Depth is bounded by the longest token.
  void Emit(std::string_view text, const Splits& splits, bool* after_unknown,
            std::vector<TokenId>* ids) const {
    const auto it = ids_.find(text);
    if (it != ids_.end() && !unused_[static_cast<size_t>(it->second)]) {
      ids->push_back(it->second);
      *after_unknown = false;
      return;
    }
    if (const auto parts = splits.find(text); parts != splits.end()) {
      Emit(text.substr(0, parts->second), splits, after_unknown, ids);
      Emit(text.substr(parts->second), splits, after_unknown, ids);
      return;
    }
    if (it != ids_.end()) {
      ids->push_back(it->second);  // an unused single character is all there is for it
      *after_unknown = false;
      return;
    }
    unknown_.Append(text, after_unknown, ids);
  }

  std::vector<double> scores_;
  std::vector<bool> unused_;
  TextToId ids_;
  UnknownText unknown_;
};

}  // namespace

StatusOr<std::unique_ptr<TokenModel>> MakeSentencePieceBpeModel(const TokenizerSpec& spec) {
  return std::make_unique<SentencePieceBpeModel>(spec);
}

}  // namespace paceline
