#include "common/text/tokenizer.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/text/streaming_detokenizer.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

Status CheckId(const TokenizerSpec& spec, TokenId id, std::string_view what) {
  if (id >= 0 && static_cast<size_t>(id) < spec.tokens.size() &&
      !spec.tokens[static_cast<size_t>(id)].empty()) {
    return OkStatus();
  }
  return InvalidArgumentError("tokenizer: {} is id {}, but the vocabulary of {} has no such token", what, id,
                              spec.tokens.size());
}

Status CheckAddedTokens(const TokenizerSpec& spec) {
  for (const AddedToken& token : spec.added_tokens) {
    RETURN_IF_ERROR(CheckId(spec, token.id, fmt::format("added token '{}'", token.content)));
    if (!IsValidUtf8(token.content)) {
      return InvalidArgumentError("tokenizer: added token {} is not UTF-8", token.id);
    }
  }
  return OkStatus();
}

Status CheckSpecialIds(const TokenizerSpec& spec) {
  if (spec.unknown) RETURN_IF_ERROR(CheckId(spec, *spec.unknown, "the unknown token"));
  if (spec.bos) RETURN_IF_ERROR(CheckId(spec, *spec.bos, "BOS"));
  if (spec.eos) RETURN_IF_ERROR(CheckId(spec, *spec.eos, "EOS"));
  for (const TokenId id : spec.prefix) RETURN_IF_ERROR(CheckId(spec, id, "a token put in front of the text"));
  for (const TokenId id : spec.suffix) RETURN_IF_ERROR(CheckId(spec, id, "a token put behind the text"));
  return OkStatus();
}

Status CheckSpec(const TokenizerSpec& spec) {
  const size_t count = spec.tokens.size();
  if (count == 0 || count > static_cast<size_t>(std::numeric_limits<TokenId>::max())) {
    return InvalidArgumentError("tokenizer: want 1 to 2^31-1 tokens, found {}", count);
  }
  if (spec.types.size() != count) {
    return InvalidArgumentError("tokenizer: want {} token types, one for each token, found {}", count,
                                spec.types.size());
  }
  const bool scored =
      spec.model == TokenizerModelKind::kSentencePieceBpe || spec.model == TokenizerModelKind::kUnigram;
  if (scored && spec.scores.size() != count) {
    return InvalidArgumentError("tokenizer: want {} scores, one for each token, found {}", count,
                                spec.scores.size());
  }
  for (size_t id = 0; id < spec.scores.size(); ++id) {
    if (!std::isfinite(spec.scores[id]))
      return InvalidArgumentError("tokenizer: score of token {} is not a number", id);
  }
  RETURN_IF_ERROR(CheckSpecialIds(spec));
  return CheckAddedTokens(spec);
}

std::string DigestOf(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += fmt::format("{}:{}", text.size(), text);
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

Status CheckTokenCount(size_t count, size_t tokens_max) {
  if (count <= tokens_max) return OkStatus();
  return ResourceExhaustedError("the text is over the limit of {} tokens; send a shorter text", tokens_max);
}

void Tokenizer::IndexTexts(const TokenizerSpec& spec) {
  id_of_text_.reserve(texts_.size());
  for (const AddedToken& token : spec.added_tokens) {
    if (texts_[static_cast<size_t>(token.id)] == token.content) {
      id_of_text_.try_emplace(texts_[static_cast<size_t>(token.id)], token.id);
    }
  }
  for (size_t id = 0; id < texts_.size(); ++id) {
    if (!texts_[id].empty()) id_of_text_.try_emplace(texts_[id], static_cast<TokenId>(id));
  }
}

StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  RETURN_IF_ERROR(CheckSpec(spec));
  std::unique_ptr<Tokenizer> out(new Tokenizer());
  ASSIGN_OR_RETURN(out->normalizer_, Normalizer::Create(spec.normalizer));
  ASSIGN_OR_RETURN(out->pre_tokenizer_, PreTokenizer::Create(spec.pre_tokenizer));
  ASSIGN_OR_RETURN(out->model_, MakeTokenModel(spec, out->pre_tokenizer_.byte_level()));
  ASSIGN_OR_RETURN(out->plan_, DecodePlan::Create(spec));
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (const AddedToken& token : spec.added_tokens) {
    if (!token.normalized) {
      raw.push_back(token);
      continue;
    }
    normalized.push_back(token);
    ASSIGN_OR_RETURN(normalized.back().content, out->normalizer_.Normalize(token.content));
  }
  out->raw_tokens_ = AddedTokenMatcher(raw);
  out->normalized_tokens_ = AddedTokenMatcher(normalized);
  out->texts_ = std::move(spec.tokens);
  out->IndexTexts(spec);
  out->digest_ = DigestOf(out->texts_);
  out->prefix_ = std::move(spec.prefix);
  out->suffix_ = std::move(spec.suffix);
  out->bos_ = spec.bos;
  out->eos_ = spec.eos;
  return out;
}

StatusOr<std::vector<TokenId>> Tokenizer::Encode(std::string_view utf8, const EncodeOptions& options) const {
  if (utf8.size() > kSplitBytesMax) {
    return ResourceExhaustedError("the text has {} bytes, the limit is {}; send a shorter text", utf8.size(),
                                  kSplitBytesMax);
  }
  if (!IsValidUtf8(utf8)) return InvalidArgumentError("the text is not valid UTF-8; send it as UTF-8");
  std::vector<TokenId> ids;
  if (options.add_special_tokens) ids = prefix_;
  for (const TextPiece& piece : raw_tokens_.Cut(utf8, options.parse_special_tokens)) {
    if (piece.token) {
      ids.push_back(*piece.token);
    } else {
      RETURN_IF_ERROR(EncodePiece(piece.text, piece.text.data() == utf8.data(), options, &ids));
    }
    RETURN_IF_ERROR(CheckTokenCount(ids.size(), options.tokens_max));
  }
  if (options.add_special_tokens) ids.insert(ids.end(), suffix_.begin(), suffix_.end());
  RETURN_IF_ERROR(CheckTokenCount(ids.size(), options.tokens_max));
  return ids;
}

Status Tokenizer::EncodePiece(std::string_view raw, bool at_text_start, const EncodeOptions& options,
                              std::vector<TokenId>* ids) const {
  std::string normalized;
  if (!normalizer_.empty()) {
    ASSIGN_OR_RETURN(normalized, normalizer_.Normalize(raw));
    raw = normalized;
  }
  for (const TextPiece& piece : normalized_tokens_.Cut(raw, options.parse_special_tokens)) {
    if (piece.token) {
      ids->push_back(*piece.token);
    } else {
      const bool first = at_text_start && piece.text.data() == raw.data();
      RETURN_IF_ERROR(EncodeText(piece.text, first, options, ids));
    }
  }
  return OkStatus();
}

Status Tokenizer::EncodeText(std::string_view normalized, bool at_text_start, const EncodeOptions& options,
                             std::vector<TokenId>* ids) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> splits, pre_tokenizer_.Split(normalized, at_text_start));
  for (const std::string& split : splits) {
    if (split.size() > kSplitBytesMax) {
      return ResourceExhaustedError("the normalized text has {} bytes, the limit is {}; send a shorter text",
                                    split.size(), kSplitBytesMax);
    }
    RETURN_IF_ERROR(model_->Encode(split, ids));
    RETURN_IF_ERROR(CheckTokenCount(ids->size(), options.tokens_max));
  }
  return OkStatus();
}

StatusOr<std::vector<TokenId>> Tokenizer::EncodeChatPrompt(std::string_view rendered,
                                                           EncodeOptions options) const {
  const bool has_bos = bos_ && rendered.starts_with(bos_text());
  ASSIGN_OR_RETURN(std::vector<TokenId> ids, Encode(rendered, options));
  if (options.add_special_tokens && has_bos && adds_bos() && ids.size() > 1 && ids[1] == *bos_) {
    ids.erase(ids.begin());
  }
  return ids;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  StreamingDetokenizer stream(plan_,
                              {.skip_special_tokens = options.skip_special_tokens, .at_text_start = true});
  std::string text;
  for (const TokenId id : ids) text += stream.Append(id);
  return text + stream.Flush();
}

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  return plan_.Knows(id) ? plan_.Bytes(id) : std::string_view();
}

std::string_view Tokenizer::TokenText(TokenId id) const {
  return plan_.Knows(id) ? std::string_view(texts_[static_cast<size_t>(id)]) : std::string_view();
}

std::optional<TokenId> Tokenizer::TokenToId(std::string_view text) const {
  const auto it = id_of_text_.find(text);
  if (it == id_of_text_.end()) return std::nullopt;
  return it->second;
}

}  // namespace paceline
