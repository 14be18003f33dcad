// tokenizer.json: vocabulary, merges and added tokens; and tokenizer_config.json on top.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "common/model/strict_json.h"
#include "common/text/token_model.h"
#include "common/text/tokenizer_loaders.h"

namespace paceline {
namespace {

using nlohmann::json;

constexpr size_t kTokensMax = size_t{1} << 24;  // a larger id is a damaged file, not a vocabulary

StatusOr<bool> Flag(const json& object, std::string_view key) {
  ASSIGN_OR_RETURN(const std::optional<bool> value, JsonBool(object, key));
  return value.value_or(false);
}

Status SetToken(uint64_t id, const std::string& text, TokenType type, TokenizerSpec* spec) {
  if (id >= kTokensMax) {
    return InvalidArgumentError("tokenizer.json: token '{}' has id {}, want ids below {}", text, id,
                                kTokensMax);
  }
  if (spec->tokens.size() <= id) {
    spec->tokens.resize(id + 1);
    spec->types.resize(id + 1, TokenType::kUnused);
  }
  if (!spec->tokens[id].empty()) {
    return InvalidArgumentError("tokenizer.json: id {} names two tokens, '{}' and '{}'", id, spec->tokens[id],
                                text);
  }
  spec->tokens[id] = text;
  spec->types[id] = type;
  return OkStatus();
}

TokenType TypeOfVocabularyToken(const std::string& text, const TokenizerSpec& spec) {
  return spec.byte_fallback && ParseByteToken(text) >= 0 ? TokenType::kByte : TokenType::kNormal;
}

Status ReadVocabulary(const json& model, TokenizerSpec* spec) {
  const auto vocab = model.find("vocab");
  if (vocab == model.end() || !vocab->is_object()) {
    return InvalidArgumentError("tokenizer.json: model.vocab: want an object of token -> id, found {}",
                                vocab == model.end() ? "nothing" : vocab->type_name());
  }
  for (const auto& [text, id] : vocab->items()) {
    if (!id.is_number_unsigned()) {
      return InvalidArgumentError("tokenizer.json: model.vocab['{}']: want an id, found {}", text,
                                  id.type_name());
    }
    RETURN_IF_ERROR(SetToken(id.get<uint64_t>(), text, TypeOfVocabularyToken(text, *spec), spec));
  }
  return OkStatus();
}

Status ReadUnigramVocabulary(const json& model, TokenizerSpec* spec) {
  const auto vocab = model.find("vocab");
  if (vocab == model.end() || !vocab->is_array()) {
    return InvalidArgumentError("tokenizer.json: model.vocab: want an array of [token, score]");
  }
  for (size_t id = 0; id < vocab->size(); ++id) {
    const json& entry = (*vocab)[id];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      return InvalidArgumentError("tokenizer.json: model.vocab[{}]: want [token, score], found {}", id,
                                  entry.type_name());
    }
    // The reference keeps byte tokens among the pieces of a unigram model, so that their spelling matches
    // them too.
    RETURN_IF_ERROR(SetToken(id, entry[0].get<std::string>(), TokenType::kNormal, spec));
    spec->scores.push_back(entry[1].get<double>());
  }
  return OkStatus();
}

Status ReadMerges(const json& model, TokenizerSpec* spec) {
  const auto merges = model.find("merges");
  if (merges == model.end() || !merges->is_array()) {
    return InvalidArgumentError("tokenizer.json: model.merges: want an array of pairs");
  }
  spec->merges.reserve(merges->size());
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const json& merge = (*merges)[rank];
    if (merge.is_string()) {
      const auto& pair = merge.get_ref<const std::string&>();
      const size_t space = pair.find(' ');
      if (space == pair.npos || pair.find(' ', space + 1) != pair.npos) {
        return InvalidArgumentError("tokenizer.json: merge {}: want 'left right', found '{}'", rank, pair);
      }
      spec->merges.emplace_back(pair.substr(0, space), pair.substr(space + 1));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec->merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else {
      return InvalidArgumentError("tokenizer.json: merge {}: want a pair of tokens, found {}", rank,
                                  merge.type_name());
    }
  }
  return OkStatus();
}

Status ReadBpe(const json& model, TokenizerSpec* spec) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ASSIGN_OR_RETURN(const std::optional<std::string> affix, JsonString(model, key));
    if (affix && !affix->empty()) {
      return InvalidArgumentError("tokenizer.json: BPE with {} '{}' is not supported", key, *affix);
    }
  }
  ASSIGN_OR_RETURN(const std::optional<double> dropout, JsonNumber(model, "dropout"));
  if (dropout && *dropout != 0) {
    return InvalidArgumentError("tokenizer.json: BPE with dropout {} is not supported; set it to null",
                                *dropout);
  }
  ASSIGN_OR_RETURN(spec->ignore_merges, Flag(model, "ignore_merges"));
  RETURN_IF_ERROR(ReadVocabulary(model, spec));
  return ReadMerges(model, spec);
}

StatusOr<TokenId> IdOf(const TokenizerSpec& spec, std::string_view text, std::string_view what) {
  const auto it = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  if (it != spec.tokens.end() && !text.empty()) return static_cast<TokenId>(it - spec.tokens.begin());
  return InvalidArgumentError("tokenizer: {} is '{}', which is not in the vocabulary", what, text);
}

// Files without a type are told apart by what they hold.
std::string ModelType(const json& model) {
  const auto type = model.find("type");
  if (type != model.end() && type->is_string()) return type->get<std::string>();
  if (model.contains("merges")) return "BPE";
  return model.contains("unk_id") ? "Unigram" : "";
}

Status ReadUnknownByText(const json& model, TokenizerSpec* spec) {
  ASSIGN_OR_RETURN(const std::optional<std::string> unknown, JsonString(model, "unk_token"));
  if (!unknown) return OkStatus();
  ASSIGN_OR_RETURN(spec->unknown, IdOf(*spec, *unknown, "unk_token"));
  return OkStatus();
}

Status ReadModel(const json& model, TokenizerSpec* spec) {
  ASSIGN_OR_RETURN(spec->byte_fallback, Flag(model, "byte_fallback"));
  ASSIGN_OR_RETURN(spec->fuse_unknown, Flag(model, "fuse_unk"));
  const std::string type = ModelType(model);
  if (type == "BPE") {
    spec->model = TokenizerModelKind::kBpe;
    RETURN_IF_ERROR(ReadBpe(model, spec));
    return ReadUnknownByText(model, spec);
  }
  if (type == "Unigram") {
    spec->model = TokenizerModelKind::kUnigram;
    spec->fuse_unknown = true;
    RETURN_IF_ERROR(ReadUnigramVocabulary(model, spec));
    ASSIGN_OR_RETURN(const std::optional<uint32_t> unknown, JsonU32(model, "unk_id"));
    if (unknown) spec->unknown = static_cast<TokenId>(*unknown);
    return OkStatus();
  }
  if (type == "WordPiece" || type == "WordLevel") {
    spec->model = type == "WordPiece" ? TokenizerModelKind::kWordPiece : TokenizerModelKind::kWordLevel;
    RETURN_IF_ERROR(ReadVocabulary(model, spec));
    ASSIGN_OR_RETURN(const std::optional<std::string> prefix, JsonString(model, "continuing_subword_prefix"));
    ASSIGN_OR_RETURN(const std::optional<uint32_t> chars, JsonU32(model, "max_input_chars_per_word"));
    spec->continuing_prefix = prefix.value_or(spec->continuing_prefix);
    spec->word_chars_max = chars.value_or(spec->word_chars_max);
    return ReadUnknownByText(model, spec);
  }
  return InvalidArgumentError(
      "tokenizer.json: model type '{}' is not supported; want BPE, Unigram, WordPiece or WordLevel", type);
}

StatusOr<AddedToken> ReadAddedToken(const json& entry) {
  AddedToken token;
  ASSIGN_OR_RETURN(const std::optional<uint32_t> id, JsonU32(entry, "id"));
  ASSIGN_OR_RETURN(const std::optional<std::string> content, JsonString(entry, "content"));
  if (!id || !content || *id >= kTokensMax) {
    return InvalidArgumentError("tokenizer.json: added_tokens: want an id below {} and a content, found {}",
                                kTokensMax,
                                entry.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80));
  }
  token.id = static_cast<TokenId>(*id);
  token.content = *content;
  ASSIGN_OR_RETURN(token.single_word, Flag(entry, "single_word"));
  ASSIGN_OR_RETURN(token.lstrip, Flag(entry, "lstrip"));
  ASSIGN_OR_RETURN(token.rstrip, Flag(entry, "rstrip"));
  ASSIGN_OR_RETURN(token.normalized, Flag(entry, "normalized"));
  ASSIGN_OR_RETURN(token.special, Flag(entry, "special"));
  return token;
}

Status ReadAddedTokens(const json& root, TokenizerSpec* spec) {
  const auto tokens = root.find("added_tokens");
  if (tokens == root.end() || tokens->is_null()) return OkStatus();
  if (!tokens->is_array()) return InvalidArgumentError("tokenizer.json: added_tokens: want an array");
  for (const json& entry : *tokens) {
    ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(entry));
    const auto id = static_cast<size_t>(token.id);
    if (id >= spec->tokens.size() || spec->tokens[id].empty()) {
      RETURN_IF_ERROR(
          SetToken(id, token.content, token.special ? TokenType::kControl : TokenType::kUserDefined, spec));
    }
    spec->added_tokens.push_back(std::move(token));
  }
  if (!spec->scores.empty()) spec->scores.resize(spec->tokens.size());
  return OkStatus();
}

// A token of tokenizer_config.json is a string, an object with "content", or null.
StatusOr<std::optional<TokenId>> ConfigToken(const json& config, const char* key, const TokenizerSpec& spec) {
  if (!JsonHas(config, key)) return std::optional<TokenId>();
  const json& value = config.at(key);
  const json& text = value.is_object() && value.contains("content") ? value.at("content") : value;
  if (!text.is_string()) {
    return InvalidArgumentError(
        "tokenizer_config.json: {}: want a string or an object with content, found {}", key,
        value.type_name());
  }
  ASSIGN_OR_RETURN(const TokenId id, IdOf(spec, text.get<std::string>(), key));
  return std::optional<TokenId>(id);
}

bool LeavesBosToConfig(std::string_view tokenizer_class) {
  return tokenizer_class == "LlamaTokenizer" || tokenizer_class == "LlamaTokenizerFast" ||
         tokenizer_class == "GemmaTokenizer" || tokenizer_class == "GemmaTokenizerFast";
}

}  // namespace

Status ApplyTokenizerConfig(std::string_view tokenizer_config, bool adds_bos_by_class, TokenizerSpec* spec) {
  json config = json::object();
  if (!tokenizer_config.empty()) {
    ASSIGN_OR_RETURN(config, ParseStrictJson(tokenizer_config));
  }
  ASSIGN_OR_RETURN(const std::optional<TokenId> bos, ConfigToken(config, "bos_token", *spec));
  ASSIGN_OR_RETURN(const std::optional<TokenId> eos, ConfigToken(config, "eos_token", *spec));
  if (bos) spec->bos = bos;
  if (eos) spec->eos = eos;
  ASSIGN_OR_RETURN(const std::optional<std::string> name, JsonString(config, "tokenizer_class"));
  if (!adds_bos_by_class && !LeavesBosToConfig(name.value_or(""))) {
    if (!spec->bos && !spec->prefix.empty()) spec->bos = spec->prefix.front();
    return OkStatus();
  }
  ASSIGN_OR_RETURN(const std::optional<bool> add_bos, JsonBool(config, "add_bos_token"));
  ASSIGN_OR_RETURN(const std::optional<bool> add_eos, JsonBool(config, "add_eos_token"));
  spec->prefix.clear();
  spec->suffix.clear();
  if (add_bos.value_or(true) && spec->bos) spec->prefix.push_back(*spec->bos);
  if (add_eos.value_or(false) && spec->eos) spec->suffix.push_back(*spec->eos);
  return OkStatus();
}

StatusOr<TokenizerSpec> TokenizerSpecFromTokenizerJson(std::string_view tokenizer_json,
                                                       std::string_view tokenizer_config) {
  ASSIGN_OR_RETURN(const json root, ParseStrictJson(tokenizer_json));
  const auto model = root.is_object() ? root.find("model") : root.end();
  if (!root.is_object() || model == root.end() || !model->is_object()) {
    return InvalidArgumentError("tokenizer.json: want an object with a model, found none");
  }
  TokenizerSpec spec;
  RETURN_IF_ERROR(ReadModel(*model, &spec));
  RETURN_IF_ERROR(ReadAddedTokens(root, &spec));
  RETURN_IF_ERROR(ReadTokenizerJsonSteps(root, &spec));
  RETURN_IF_ERROR(ApplyTokenizerConfig(tokenizer_config, /*adds_bos_by_class=*/false, &spec));
  return spec;
}

}  // namespace paceline
