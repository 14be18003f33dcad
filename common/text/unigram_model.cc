// Unigram language model segmentation (Kudo, arXiv 1804.10959): the tokens whose scores sum highest, by
// Viterbi.

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/text/token_model.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

constexpr double kUnknownPenalty = 10.0;

// What ends at a byte: the best way to get there.
struct Best {
  double score = 0;
  TokenId id = -1;  // -1 = unknown character
  int64_t from = -1;
};

class UnigramModel : public TokenModel {
 public:
  explicit UnigramModel(const TokenizerSpec& spec) : scores_(spec.scores), unknown_(spec) {
    double lowest = std::numeric_limits<double>::infinity();
    for (size_t id = 0; id < spec.tokens.size(); ++id) {
      const TokenType type = spec.types[id];
      if (spec.tokens[id].empty() || (type != TokenType::kNormal && type != TokenType::kUserDefined))
        continue;
      Insert(spec.tokens[id], static_cast<TokenId>(id));
      lowest = std::min(lowest, scores_[id]);
    }
    unknown_score_ = (std::isinf(lowest) ? 0.0 : lowest) - kUnknownPenalty;
  }

  Status Encode(std::string_view split, std::vector<TokenId>* ids) const override {
    std::vector<Best> best(split.size() + 1);
    for (size_t at = 0; at < split.size();) {
      const size_t character = std::min(Utf8Length(split[at]), split.size() - at);
      Relax(split, at, character, &best);
      at += character;
    }
    std::vector<std::pair<size_t, size_t>> path;  // from, to
    for (auto to = static_cast<int64_t>(split.size()); to > 0; to = best[static_cast<size_t>(to)].from) {
      path.emplace_back(static_cast<size_t>(best[static_cast<size_t>(to)].from), static_cast<size_t>(to));
    }
    bool after_unknown = false;
    for (auto step = path.rbegin(); step != path.rend(); ++step) {
      const TokenId id = best[step->second].id;
      if (id >= 0) {
        ids->push_back(id);
        after_unknown = false;
      } else {
        unknown_.Append(split.substr(step->first, step->second - step->first), &after_unknown, ids);
      }
    }
    return OkStatus();
  }

 private:
  void Insert(std::string_view text, TokenId id) {
    uint32_t node = 0;
    for (const char c : text) {
      const auto [it, inserted] = edges_.try_emplace(uint64_t{node} << 8 | static_cast<unsigned char>(c),
                                                     static_cast<uint32_t>(token_at_node_.size()));
      if (inserted) token_at_node_.push_back(-1);
      node = it->second;
    }
    token_at_node_[node] = id;
  }

  void Relax(std::string_view split, size_t at, size_t character, std::vector<Best>* best) const {
    const double here = (*best)[at].score;
    const auto offer = [&](size_t to, double score, TokenId id) {
      Best& target = (*best)[to];
      if (target.from < 0 || score > target.score) target = {score, id, static_cast<int64_t>(at)};
    };
    bool has_single = false;
    uint32_t node = 0;
    for (size_t i = at; i < split.size(); ++i) {
      const auto edge = edges_.find(uint64_t{node} << 8 | static_cast<unsigned char>(split[i]));
      if (edge == edges_.end()) break;
      node = edge->second;
      const TokenId id = token_at_node_[node];
      if (id < 0) continue;
      offer(i + 1, here + scores_[static_cast<size_t>(id)], id);
      has_single = has_single || i + 1 == at + character;
    }
    if (!has_single) offer(at + character, here + unknown_score_, -1);
  }

  std::vector<double> scores_;
  UnknownText unknown_;
  double unknown_score_ = 0;
  absl::flat_hash_map<uint64_t, uint32_t> edges_;
  std::vector<TokenId> token_at_node_ = {-1};
};

}  // namespace

StatusOr<std::unique_ptr<TokenModel>> MakeUnigramModel(const TokenizerSpec& spec) {
  return std::make_unique<UnigramModel>(spec);
}

}  // namespace paceline
