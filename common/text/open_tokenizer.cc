#include "common/text/open_tokenizer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "common/model/gguf_file.h"
#include "common/model/mapped_file.h"
#include "common/model/model_path.h"
#include "common/model/strict_json.h"
#include "common/text/tokenizer_loaders.h"

namespace paceline {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kTokenizerBytesMax = 256u << 20;
constexpr size_t kSmallFileBytesMax = 16u << 20;
constexpr size_t kTemplatesMax = 64;

// Nullopt when there is no such file.
StatusOr<std::optional<std::string>> ReadIfThere(const fs::path& path, size_t bytes_max) {
  StatusOr<std::string> text = ReadSmallFile(path.string(), bytes_max);
  if (text.ok()) return std::optional<std::string>(*std::move(text));
  if (text.status().code() == absl::StatusCode::kNotFound) return std::optional<std::string>();
  return text.status();
}

// A template as files write it: a string, or a list of {name, template} where "default" is the one.
Status TakeTemplates(const json& value, ModelText* out) {
  if (value.is_string()) {
    out->chat_template = value.get<std::string>();
    return OkStatus();
  }
  if (!value.is_array() || value.size() > kTemplatesMax) {
    return InvalidArgumentError("chat_template: want a string or a list of up to {} templates, found {}",
                                kTemplatesMax, value.type_name());
  }
  for (const json& entry : value) {
    ASSIGN_OR_RETURN(const std::optional<std::string> name, JsonString(entry, "name"));
    ASSIGN_OR_RETURN(std::optional<std::string> text, JsonString(entry, "template"));
    if (!name || !text) return InvalidArgumentError("chat_template: want entries with name and template");
    (*name == "default" ? out->chat_template : out->named_templates[*name]) = *std::move(text);
  }
  return OkStatus();
}

// Templates in the "chat_template" key of a JSON file.
Status TakeTemplatesOfJson(std::string_view text, ModelText* out) {
  ASSIGN_OR_RETURN(const json root, ParseStrictJson(text));
  return JsonHas(root, "chat_template") ? TakeTemplates(root.at("chat_template"), out) : OkStatus();
}

Status TakeAdditionalTemplates(const fs::path& dir, ModelText* out) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
  }
  if (paths.size() > kTemplatesMax) {
    return InvalidArgumentError("{}: want up to {} templates, found {}", dir.string(), kTemplatesMax,
                                paths.size());
  }
  for (const fs::path& path : paths) {
    ASSIGN_OR_RETURN(std::optional<std::string> text, ReadIfThere(path, kSmallFileBytesMax));
    if (text) out->named_templates[path.stem().string()] = *std::move(text);
  }
  return OkStatus();
}

// From the least to the most preferred place; a later one overwrites.
Status TakeFolderTemplates(const fs::path& dir, const std::string& tokenizer_config, ModelText* out) {
  if (!tokenizer_config.empty()) RETURN_IF_ERROR(TakeTemplatesOfJson(tokenizer_config, out));
  ASSIGN_OR_RETURN(const std::optional<std::string> in_json,
                   ReadIfThere(dir / "chat_template.json", kSmallFileBytesMax));
  if (in_json) RETURN_IF_ERROR(TakeTemplatesOfJson(*in_json, out));
  ASSIGN_OR_RETURN(std::optional<std::string> in_jinja,
                   ReadIfThere(dir / "chat_template.jinja", kSmallFileBytesMax));
  if (in_jinja) out->chat_template = *std::move(in_jinja);
  return TakeAdditionalTemplates(dir / "additional_chat_templates", out);
}

StatusOr<TokenizerSpec> FolderSpec(const fs::path& dir, const std::string& tokenizer_config) {
  ASSIGN_OR_RETURN(const std::optional<std::string> fast,
                   ReadIfThere(dir / "tokenizer.json", kTokenizerBytesMax));
  if (fast) return TokenizerSpecFromTokenizerJson(*fast, tokenizer_config);
  ASSIGN_OR_RETURN(const std::optional<std::string> slow,
                   ReadIfThere(dir / "tokenizer.model", kTokenizerBytesMax));
  if (slow) return TokenizerSpecFromSentencePiece(*slow, tokenizer_config);
  return NotFoundError("want tokenizer.json or tokenizer.model, found neither");
}

StatusOr<ModelText> OpenFolder(const fs::path& dir) {
  ASSIGN_OR_RETURN(const std::optional<std::string> config,
                   ReadIfThere(dir / "tokenizer_config.json", kSmallFileBytesMax));
  ModelText out;
  ASSIGN_OR_RETURN(TokenizerSpec spec, FolderSpec(dir, config.value_or("")));
  ASSIGN_OR_RETURN(out.tokenizer, Tokenizer::Create(std::move(spec)));
  RETURN_IF_ERROR(TakeFolderTemplates(dir, config.value_or(""), &out));
  return out;
}

StatusOr<ModelText> OpenGguf(const std::string& path) {
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  ModelText out;
  ASSIGN_OR_RETURN(TokenizerSpec spec, TokenizerSpecFromGguf(file));
  ASSIGN_OR_RETURN(out.tokenizer, Tokenizer::Create(std::move(spec)));
  ASSIGN_OR_RETURN(const std::string_view main, file.GetStringOr("tokenizer.chat_template", ""));
  out.chat_template = std::string(main);
  if (!file.Has("tokenizer.chat_templates")) return out;
  ASSIGN_OR_RETURN(const std::vector<std::string_view> names, file.GetStrings("tokenizer.chat_templates"));
  for (const std::string_view name : names) {
    ASSIGN_OR_RETURN(const std::string_view text,
                     file.GetString("tokenizer.chat_template." + std::string(name)));
    out.named_templates[std::string(name)] = std::string(text);
  }
  return out;
}

}  // namespace

const std::string* ModelText::Template(const std::string& name) const {
  if (const auto it = named_templates.find(name); it != named_templates.end()) return &it->second;
  return chat_template.empty() ? nullptr : &chat_template;
}

StatusOr<ModelText> OpenTokenizer(const std::string& model) {
  ASSIGN_OR_RETURN(const ModelPath where, ResolveModel(model));
  StatusOr<ModelText> out =
      where.kind == ModelPath::Kind::kGguf ? OpenGguf(where.path) : OpenFolder(where.path);
  if (!out.ok()) return Annotate(out.status(), where.path);
  out->bos_text = std::string(out->tokenizer->bos_text());
  out->eos_text = std::string(out->tokenizer->eos_text());
  return out;
}

}  // namespace paceline
