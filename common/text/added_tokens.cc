#include "common/text/added_tokens.h"

#include "common/text/unicode.h"

namespace paceline {
namespace {

bool IsContinuationByte(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Start of the character that ends at `end` (> 0).
size_t PreviousCharacter(std::string_view utf8, size_t end) {
  size_t at = end - 1;
  while (at > 0 && IsContinuationByte(utf8[at])) --at;
  return at;
}

char32_t CharacterAt(std::string_view utf8, size_t at) { return NextUtf8(utf8.substr(at)).code_point; }

bool IsSpaceAt(std::string_view utf8, size_t at) {
  return (MaskOf(CharacterAt(utf8, at)) & kWhiteSpace) != 0;
}

bool TouchesWord(std::string_view utf8, size_t begin, size_t end) {
  if (begin > 0 && IsWordCharacter(CharacterAt(utf8, PreviousCharacter(utf8, begin)))) return true;
  return end < utf8.size() && IsWordCharacter(CharacterAt(utf8, end));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const std::vector<AddedToken>& tokens) : token_at_node_(1, -1) {
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    uint32_t node = 0;
    for (const char c : token.content) {
      const uint64_t key = uint64_t{node} << 8 | static_cast<unsigned char>(c);
      const auto [it, inserted] = edges_.try_emplace(key, static_cast<uint32_t>(token_at_node_.size()));
      if (inserted) token_at_node_.push_back(-1);
      node = it->second;
    }
    token_at_node_[node] = static_cast<int32_t>(tokens_.size());
    starts_token_[static_cast<unsigned char>(token.content[0])] = true;
    tokens_.push_back(token);
  }
}

std::optional<AddedTokenMatcher::Hit> AddedTokenMatcher::LongestAt(std::string_view utf8, size_t at) const {
  std::optional<Hit> best;
  uint32_t node = 0;
  for (size_t i = at; i < utf8.size(); ++i) {
    const auto edge = edges_.find(uint64_t{node} << 8 | static_cast<unsigned char>(utf8[i]));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (token_at_node_[node] >= 0) best = Hit{at, i + 1, &tokens_[static_cast<size_t>(token_at_node_[node])]};
  }
  return best;
}

std::vector<TextPiece> AddedTokenMatcher::Cut(std::string_view utf8, bool parse_special) const {
  std::vector<TextPiece> pieces;
  size_t text_begin = 0;  // of the text not yet in a piece
  size_t at = 0;
  while (at < utf8.size()) {
    std::optional<Hit> hit;
    if (starts_token_[static_cast<unsigned char>(utf8[at])]) hit = LongestAt(utf8, at);
    if (!hit) {
      ++at;
      continue;
    }
    at = hit->end;
    const AddedToken& token = *hit->token;
    if (token.special && !parse_special) continue;
    if (token.single_word && TouchesWord(utf8, hit->begin, hit->end)) continue;
    while (token.lstrip && hit->begin > text_begin) {
      const size_t previous = PreviousCharacter(utf8, hit->begin);
      if (previous < text_begin || !IsSpaceAt(utf8, previous)) break;
      hit->begin = previous;
    }
    while (token.rstrip && hit->end < utf8.size() && IsSpaceAt(utf8, hit->end)) {
      hit->end += Utf8Length(utf8[hit->end]);
    }
    if (hit->begin > text_begin) {
      pieces.push_back({std::nullopt, utf8.substr(text_begin, hit->begin - text_begin)});
    }
    pieces.push_back({token.id, utf8.substr(hit->begin, hit->end - hit->begin)});
    text_begin = hit->end;
    at = hit->end;
  }
  if (text_begin < utf8.size()) pieces.push_back({std::nullopt, utf8.substr(text_begin)});
  return pieces;
}

}  // namespace paceline
