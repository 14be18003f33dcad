#include "common/model/special_ids.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/model/gguf_file.h"
#include "common/model/hf_folder.h"
#include "common/model/model_path.h"
#include "common/model/printable.h"
#include "common/model/strict_json.h"

namespace paceline {
namespace {

using nlohmann::json;

// Token texts that end an answer in the public families (llama.cpp's end-of-generation list).
constexpr std::array<std::string_view, 12> kEndTexts = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>", "<|end_of_text|>",
    "<|eom_id|>", "<EOT>",      "_<EOT>",  "<｜end▁of▁sentence｜>", "<|return|>",    "<|call|>"};
constexpr int32_t kControlToken = 3;  // tokenizer.ggml.token_type

void Normalize(std::vector<uint32_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

Status CheckId(std::string_view key, uint32_t id, uint64_t count) {
  if (id < count) return OkStatus();
  return InvalidArgumentError("{}: id {} is outside the vocabulary of {}", key, id, count);
}

// The id under `key`; the default stands in for a missing key when the vocabulary has it.
StatusOr<std::optional<uint32_t>> GgufId(const GgufFile& file, std::string_view key,
                                         std::optional<uint32_t> absent, uint64_t num_tokens) {
  if (!file.Has(key)) return absent && *absent < num_tokens ? absent : std::nullopt;
  ASSIGN_OR_RETURN(const uint32_t id, file.GetU32(key));
  // Converters write 2^32 - 1 for "none".
  if (id == std::numeric_limits<uint32_t>::max()) return std::optional<uint32_t>();
  RETURN_IF_ERROR(CheckId(key, id, num_tokens));
  return std::optional<uint32_t>(id);
}

Status AddEndTexts(const GgufFile& file, std::vector<uint32_t>& eos) {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens, file.GetStrings("tokenizer.ggml.tokens"));
  std::vector<int32_t> types;
  if (file.Has("tokenizer.ggml.token_type")) {
    ASSIGN_OR_RETURN(types, file.GetI32s("tokenizer.ggml.token_type"));
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool control = i < types.size() && types[i] == kControlToken;
    const bool known = std::find(kEndTexts.begin(), kEndTexts.end(), tokens[i]) != kEndTexts.end();
    if (known || (control && tokens[i] == "</s>")) eos.push_back(static_cast<uint32_t>(i));
  }
  return OkStatus();
}

// An id, a list of ids, or null.
StatusOr<std::vector<uint32_t>> IdList(const json& object, std::string_view key, uint64_t vocab_size) {
  std::vector<uint32_t> ids;
  if (!JsonHas(object, key)) return ids;
  const json& value = object.at(std::string(key));
  const json list = value.is_array() ? value : json::array({value});
  for (const json& entry : list) {
    const std::optional<uint32_t> id = AsU32(entry);
    if (!id || *id >= vocab_size) {
      return InvalidArgumentError("{}: want ids below the vocabulary of {}, found {}", key, vocab_size,
                                  Printable(entry.dump(-1, ' ', true)));
    }
    ids.push_back(*id);
  }
  return ids;
}

// "<|im_end|>" or {"content": "<|im_end|>", ...}.
std::string TokenText(const json& tokenizer_config, const std::string& key) {
  if (!JsonHas(tokenizer_config, key)) return "";
  const json& token = tokenizer_config.at(key);
  if (token.is_string()) return token.get<std::string>();
  const auto content = token.is_object() ? token.find("content") : token.end();
  return content != token.end() && content->is_string() ? content->get<std::string>() : "";
}

// The id of the tokenizer's eos_token, where added_tokens_decoder maps ids to texts.
std::optional<uint32_t> TokenizerEos(const json& tokenizer_config, uint64_t vocab_size) {
  const std::string text = TokenText(tokenizer_config, "eos_token");
  if (text.empty() || !JsonHas(tokenizer_config, "added_tokens_decoder")) return std::nullopt;
  for (const auto& [id, token] : tokenizer_config.at("added_tokens_decoder").items()) {
    const bool digits =
        !id.empty() && id.size() <= 9 && id.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || !token.is_object() || token.value("content", json()) != text) continue;
    if (const auto number = static_cast<uint32_t>(std::stoul(id)); number < vocab_size) return number;
  }
  return std::nullopt;
}

// A number of generation_config.json within its range.
Status ReadBounded(const json& object, std::string_view key, double low, double high, bool low_included,
                   std::optional<double>& out) {
  ASSIGN_OR_RETURN(out, JsonNumber(object, key));
  if (!out || (*out <= high && (*out > low || (low_included && *out == low)))) return OkStatus();
  return InvalidArgumentError("{}: want {} {} and at most {}, found {}", key,
                              low_included ? "at least" : "above", low, high, *out);
}

StatusOr<uint64_t> VocabSize(const HfFolder& folder) {
  ASSIGN_OR_RETURN(const std::optional<uint32_t> stated, JsonU32(folder.config(), "vocab_size"));
  return uint64_t{stated.value_or(32000)};  // the llama family's default
}

StatusOr<SpecialIds> FolderIds(const HfFolder& folder) {
  ASSIGN_OR_RETURN(const uint64_t vocab_size, VocabSize(folder));
  SpecialIds ids;
  const bool own = JsonHas(folder.generation_config(), "eos_token_id");
  ASSIGN_OR_RETURN(ids.eos,
                   IdList(own ? folder.generation_config() : folder.config(), "eos_token_id", vocab_size));
  if (const auto eos = TokenizerEos(folder.tokenizer_config(), vocab_size)) ids.eos.push_back(*eos);
  Normalize(ids.eos);
  const bool own_bos = JsonHas(folder.generation_config(), "bos_token_id");
  ASSIGN_OR_RETURN(
      const std::vector<uint32_t> bos,
      IdList(own_bos ? folder.generation_config() : folder.config(), "bos_token_id", vocab_size));
  if (!bos.empty()) ids.bos = bos.front();
  return ids;
}

StatusOr<GenerationDefaults> FolderDefaults(const json& config) {
  constexpr double kUnbounded = 1e9;
  GenerationDefaults out;
  RETURN_IF_ERROR(ReadBounded(config, "temperature", 0, kUnbounded, true, out.temperature));
  RETURN_IF_ERROR(ReadBounded(config, "top_p", 0, 1, false, out.top_p));
  RETURN_IF_ERROR(ReadBounded(config, "min_p", 0, 1, true, out.min_p));
  RETURN_IF_ERROR(ReadBounded(config, "repetition_penalty", 0, kUnbounded, false, out.repetition_penalty));
  ASSIGN_OR_RETURN(out.max_new_tokens, JsonU32(config, "max_new_tokens"));
  if (out.max_new_tokens && *out.max_new_tokens == 0)
    return InvalidArgumentError("max_new_tokens: want 1 or more, found 0");
  // -1 is vLLM's spelling of "all".
  if (JsonHas(config, "top_k") && config.at("top_k") == -1) {
    out.top_k = 0;
  } else {
    ASSIGN_OR_RETURN(out.top_k, JsonU32(config, "top_k"));
  }
  return out;
}

}  // namespace

bool SpecialIds::IsEos(uint32_t id) const { return std::binary_search(eos.begin(), eos.end(), id); }

StatusOr<SpecialIds> SpecialIdsFromGguf(const GgufFile& file) {
  SpecialIds ids;
  const GgufValue* tokens = file.Find("tokenizer.ggml.tokens");
  if (tokens == nullptr) return ids;  // a model without text: raw ids in and out
  ASSIGN_OR_RETURN(const std::string_view kind, file.GetStringOr("tokenizer.ggml.model", ""));
  const bool sentence_piece = kind == "llama";
  const bool byte_level = kind == "gpt2";
  const auto by_kind = [&](uint32_t sp, uint32_t bl) -> std::optional<uint32_t> {
    return sentence_piece ? std::optional(sp) : byte_level ? std::optional(bl) : std::nullopt;
  };
  ASSIGN_OR_RETURN(ids.bos, GgufId(file, "tokenizer.ggml.bos_token_id", by_kind(1, 11), tokens->count));
  ASSIGN_OR_RETURN(const auto eos,
                   GgufId(file, "tokenizer.ggml.eos_token_id", by_kind(2, 11), tokens->count));
  if (eos) ids.eos.push_back(*eos);
  for (const std::string_view key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    ASSIGN_OR_RETURN(const auto id, GgufId(file, key, std::nullopt, tokens->count));
    if (id) ids.eos.push_back(*id);
  }
  RETURN_IF_ERROR(AddEndTexts(file, ids.eos));
  Normalize(ids.eos);
  return ids;
}

StatusOr<SpecialIds> SpecialIdsFromFolder(const HfFolder& folder) {
  auto ids = FolderIds(folder);
  if (!ids.ok()) return Annotate(ids.status(), folder.path());
  return ids;
}

StatusOr<GenerationDefaults> GenerationDefaultsFromFolder(const HfFolder& folder) {
  auto defaults = FolderDefaults(folder.generation_config());
  if (!defaults.ok()) return Annotate(defaults.status(), folder.path() + "/generation_config.json");
  return defaults;
}

StatusOr<ModelDefaults> LoadModelDefaults(const std::string& model) {
  ASSIGN_OR_RETURN(const ModelPath where, ResolveModel(model));
  ModelDefaults defaults;
  if (where.kind == ModelPath::Kind::kGguf) {
    ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(where.path));
    auto ids = SpecialIdsFromGguf(file);
    if (!ids.ok()) return Annotate(ids.status(), where.path);
    defaults.ids = *std::move(ids);
    return defaults;
  }
  ASSIGN_OR_RETURN(const HfFolder folder, HfFolder::Open(where.path));
  ASSIGN_OR_RETURN(defaults.ids, SpecialIdsFromFolder(folder));
  ASSIGN_OR_RETURN(defaults.generation, GenerationDefaultsFromFolder(folder));
  return defaults;
}

}  // namespace paceline
