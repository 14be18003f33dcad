#include "coordinator/api/logprob_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/text/tokenizer.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

using nlohmann::ordered_json;

constexpr float kLogprobFloor = -9999.0f;  // JSON has no infinity

float Shown(float logprob) { return std::max(logprob, kLogprobFloor); }

std::string ValidUtf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const Utf8Unit unit = NextUtf8(bytes);
    const size_t length = std::max<size_t>(unit.bytes, 1);
    if (unit.kind == Utf8Unit::Kind::kComplete) {
      out += bytes.substr(0, length);
    } else {
      out += kReplacementCharacter;
    }
    bytes.remove_prefix(std::min(length, bytes.size()));
  }
  return out;
}

std::string IdName(TokenId id) { return fmt::format("token_id:{}", id); }

}  // namespace

std::string LogprobWriter::TokenString(TokenId id) const {
  return tokens_as_ids_ ? IdName(id) : ValidUtf8(tokenizer_.TokenBytes(id));
}

size_t LogprobWriter::NumCharacters(std::span<const TokenId> ids) const {
  size_t count = 0;
  for (TokenId id : ids) {
    const std::string text = TokenString(id);
    count += static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  }
  return count;
}

ordered_json LogprobWriter::Completion(std::span<const TokenId> ids, std::span<const TokenLogprobs> logprobs,
                                       size_t offset) const {
  CHECK_EQ(ids.size(), logprobs.size()) << "one entry per id";
  ordered_json tokens = ordered_json::array(), values = ordered_json::array();
  ordered_json tops = ordered_json::array(), offsets = ordered_json::array();
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string chosen = TokenString(ids[i]);
    ordered_json top = ordered_json::object();
    for (const auto& [id, logprob] : logprobs[i].top) {
      // Two ids can read the same (halves of characters do). The chosen one keeps the plain name; another of
      // that name goes by its id, so that the largest value of the map stays the largest.
      std::string name = TokenString(id);
      if ((id != ids[i] && name == chosen) || top.contains(name)) name = IdName(id);
      top[name] = Shown(id == ids[i] ? logprobs[i].logprob : logprob);
    }
    if (!top.contains(chosen)) top[chosen] = Shown(logprobs[i].logprob);
    tokens.push_back(chosen);
    values.push_back(Shown(logprobs[i].logprob));
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    offset += NumCharacters(ids.subspan(i, 1));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

ordered_json LogprobWriter::Entry(TokenId id, float logprob) const {
  ordered_json bytes = ordered_json::array();
  for (char c : tokenizer_.TokenBytes(id)) bytes.push_back(static_cast<uint8_t>(c));
  return {{"token", TokenString(id)}, {"logprob", Shown(logprob)}, {"bytes", std::move(bytes)}};
}

ordered_json LogprobWriter::Chat(std::span<const TokenId> ids,
                                 std::span<const TokenLogprobs> logprobs) const {
  CHECK_EQ(ids.size(), logprobs.size()) << "one entry per id";
  ordered_json content = ordered_json::array();
  for (size_t i = 0; i < ids.size(); ++i) {
    ordered_json top = ordered_json::array();
    bool has_chosen = false;
    for (const auto& [id, logprob] : logprobs[i].top) {
      has_chosen = has_chosen || id == ids[i];
      top.push_back(Entry(id, id == ids[i] ? logprobs[i].logprob : logprob));
    }
    if (!has_chosen) top.push_back(Entry(ids[i], logprobs[i].logprob));
    ordered_json entry = Entry(ids[i], logprobs[i].logprob);
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  ordered_json out;
  out["content"] = std::move(content);
  return out;
}

}  // namespace paceline
