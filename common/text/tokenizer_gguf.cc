// tokenizer.ggml.* of a GGUF file.

#include <string>

#include "common/model/gguf_file.h"
#include "common/text/tokenizer_loaders.h"

namespace paceline {
namespace {

constexpr char kSpaceMark[] = "\u2581";

Status ReadTypes(const GgufFile& file, TokenizerSpec* spec) {
  spec->types.assign(spec->tokens.size(), TokenType::kNormal);
  if (!file.Has("tokenizer.ggml.token_type")) return OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int32_t> types, file.GetI32s("tokenizer.ggml.token_type"));
  if (types.size() != spec->tokens.size()) {
    return InvalidArgumentError(
        "tokenizer.ggml.token_type: want {} entries as tokenizer.ggml.tokens has, found {}",
        spec->tokens.size(), types.size());
  }
  for (size_t id = 0; id < types.size(); ++id) {
    if (types[id] < 1 || types[id] > 6) {
      return InvalidArgumentError("tokenizer.ggml.token_type: token {}: want 1 to 6, found {}", id,
                                  types[id]);
    }
    spec->types[id] = static_cast<TokenType>(types[id]);
  }
  return OkStatus();
}

Status ReadTokens(const GgufFile& file, TokenizerSpec* spec) {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens, file.GetStrings("tokenizer.ggml.tokens"));
  spec->tokens.assign(tokens.begin(), tokens.end());
  RETURN_IF_ERROR(ReadTypes(file, spec));
  // Control and user-defined tokens are found in the text; the unknown token only where control tokens are.
  for (size_t id = 0; id < spec->tokens.size(); ++id) {
    const TokenType type = spec->types[id];
    if (spec->tokens[id].empty()) continue;
    if (type != TokenType::kControl && type != TokenType::kUserDefined && type != TokenType::kUnknown)
      continue;
    spec->added_tokens.push_back({.id = static_cast<TokenId>(id),
                                  .content = spec->tokens[id],
                                  .special = type != TokenType::kUserDefined});
  }
  spec->added_tokens_decode_raw = true;
  return OkStatus();
}

Status ReadId(const GgufFile& file, std::string_view key, std::optional<TokenId> absent,
              std::optional<TokenId>* id) {
  *id = absent;
  if (!file.Has(key)) return OkStatus();
  ASSIGN_OR_RETURN(const uint32_t value, file.GetU32(key));
  if (value > INT32_MAX) return InvalidArgumentError("{}: want a token id, found {}", key, value);
  *id = static_cast<TokenId>(value);
  return OkStatus();
}

Status ReadPrefixAndSuffix(const GgufFile& file, bool adds_bos, TokenizerSpec* spec) {
  ASSIGN_OR_RETURN(const bool bos, file.GetBoolOr("tokenizer.ggml.add_bos_token", adds_bos));
  ASSIGN_OR_RETURN(const bool eos, file.GetBoolOr("tokenizer.ggml.add_eos_token", false));
  if (bos && spec->bos) spec->prefix.push_back(*spec->bos);
  if (eos && spec->eos) spec->suffix.push_back(*spec->eos);
  return OkStatus();
}

// "left right"; a token may itself begin with a space, so the search starts behind the first byte.
Status ReadMerges(const GgufFile& file, TokenizerSpec* spec) {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> merges, file.GetStrings("tokenizer.ggml.merges"));
  spec->merges.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const size_t space = merges[rank].find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merges[rank].size()) {
      return InvalidArgumentError("tokenizer.ggml.merges[{}]: want 'left right', found '{}'", rank,
                                  merges[rank]);
    }
    spec->merges.emplace_back(merges[rank].substr(0, space), merges[rank].substr(space + 1));
  }
  return OkStatus();
}

Status ReadByteLevelBpe(const GgufFile& file, TokenizerSpec* spec) {
  spec->model = TokenizerModelKind::kBpe;
  ASSIGN_OR_RETURN(const std::string_view pre, file.GetStringOr("tokenizer.ggml.pre", "default"));
  ASSIGN_OR_RETURN(GgufPreTokenizer pre_tokenizer, GgufPreTokenizerNamed(pre));
  spec->pre_tokenizer = std::move(pre_tokenizer.steps);
  spec->ignore_merges = pre_tokenizer.ignore_merges;
  if (pre_tokenizer.composes) spec->normalizer.push_back({.kind = NormalizerStep::Kind::kNfc});
  ASSIGN_OR_RETURN(const bool prefix, file.GetBoolOr("tokenizer.ggml.add_space_prefix", false));
  if (prefix) {
    return InvalidArgumentError("tokenizer.ggml.add_space_prefix: true is not supported with model 'gpt2'");
  }
  spec->decoder = {{.kind = DecoderStep::Kind::kByteLevel}};
  RETURN_IF_ERROR(ReadMerges(file, spec));
  // Files without the keys mean 11, as llama.cpp reads them (Falcon's end of text).
  const std::optional<TokenId> absent = spec->tokens.size() > 11 ? std::optional<TokenId>(11) : std::nullopt;
  RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.bos_token_id", absent, &spec->bos));
  RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.eos_token_id", absent, &spec->eos));
  return ReadPrefixAndSuffix(file, pre_tokenizer.adds_bos, spec);
}

Status ReadSentencePiece(const GgufFile& file, TokenizerSpec* spec) {
  spec->model = TokenizerModelKind::kSentencePieceBpe;
  ASSIGN_OR_RETURN(const std::vector<float> scores, file.GetFloats("tokenizer.ggml.scores"));
  spec->scores.assign(scores.begin(), scores.end());
  spec->byte_fallback = spec->fuse_unknown = true;
  ASSIGN_OR_RETURN(const bool prefix, file.GetBoolOr("tokenizer.ggml.add_space_prefix", true));
  ASSIGN_OR_RETURN(const bool collapse, file.GetBoolOr("tokenizer.ggml.remove_extra_whitespaces", false));
  if (collapse) spec->normalizer.push_back({.kind = NormalizerStep::Kind::kCollapseSpaces});
  if (prefix) spec->normalizer.push_back({.kind = NormalizerStep::Kind::kPrepend, .content = kSpaceMark});
  spec->normalizer.push_back({.kind = NormalizerStep::Kind::kReplace, .pattern = " ", .content = kSpaceMark});
  spec->decoder = {{.kind = DecoderStep::Kind::kReplace, .pattern = kSpaceMark, .content = " "},
                   {.kind = DecoderStep::Kind::kByteFallback},
                   {.kind = DecoderStep::Kind::kFuse}};
  if (prefix) {
    spec->decoder.push_back({.kind = DecoderStep::Kind::kStrip, .content = " ", .start_count = 1});
  }
  RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.bos_token_id", 1, &spec->bos));
  RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.eos_token_id", 2, &spec->eos));
  RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.unknown_token_id", 0, &spec->unknown));
  return ReadPrefixAndSuffix(file, /*adds_bos=*/true, spec);
}

}  // namespace

StatusOr<TokenizerSpec> TokenizerSpecFromGguf(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view model, file.GetString("tokenizer.ggml.model"));
  if (file.Has("tokenizer.ggml.precompiled_charsmap")) {
    ASSIGN_OR_RETURN(const std::string_view map, file.GetBytes("tokenizer.ggml.precompiled_charsmap"));
    if (!map.empty()) {
      return InvalidArgumentError(
          "tokenizer.ggml.precompiled_charsmap: want none, found {} bytes; a model with its own "
          "normalization table is "
          "not supported",
          map.size());
    }
  }
  TokenizerSpec spec;
  RETURN_IF_ERROR(ReadTokens(file, &spec));
  if (model == "gpt2") {
    RETURN_IF_ERROR(ReadByteLevelBpe(file, &spec));
  } else if (model == "llama") {
    RETURN_IF_ERROR(ReadSentencePiece(file, &spec));
  } else {
    return InvalidArgumentError("tokenizer.ggml.model: want 'llama' or 'gpt2', found '{}'", model);
  }
  return spec;
}

}  // namespace paceline
