// The step chains of tokenizer.json: normalizer, pre_tokenizer, post_processor, decoder.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "common/model/strict_json.h"
#include "common/text/tokenizer_loaders.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

using nlohmann::json;

constexpr int kNestingMax = 8;

StatusOr<std::string> TypeOf(const json& step, std::string_view section) {
  ASSIGN_OR_RETURN(std::optional<std::string> type, JsonString(step, "type"));
  if (!type) return InvalidArgumentError("tokenizer.json: a {} step without a type", section);
  return *std::move(type);
}

Status NotSupported(std::string_view section, std::string_view what) {
  return InvalidArgumentError("tokenizer.json: {} '{}' is not supported", section, what);
}

// Calls `read` for each step of a section, Sequences flattened.
Status ForEachStep(const json& step, std::string_view section, const char* list_key, int nesting,
                   const std::function<Status(const std::string& type, const json& step)>& read) {
  if (step.is_null()) return OkStatus();
  ASSIGN_OR_RETURN(const std::string type, TypeOf(step, section));
  if (type != "Sequence") return read(type, step);
  const auto list = step.find(list_key);
  if (list == step.end() || !list->is_array() || nesting >= kNestingMax) {
    return InvalidArgumentError("tokenizer.json: {} Sequence: want an array {}, nested less than {} deep",
                                section, list_key, kNestingMax);
  }
  for (const json& inner : *list) {
    RETURN_IF_ERROR(ForEachStep(inner, section, list_key, nesting + 1, read));
  }
  return OkStatus();
}

StatusOr<bool> FlagOr(const json& step, std::string_view key, bool absent) {
  ASSIGN_OR_RETURN(const std::optional<bool> value, JsonBool(step, key));
  return value.value_or(absent);
}

StatusOr<std::string> TextOr(const json& step, std::string_view key, std::string absent) {
  ASSIGN_OR_RETURN(std::optional<std::string> value, JsonString(step, key));
  return value ? *std::move(value) : std::move(absent);
}

// {"String": ".."} or {"Regex": ".."}
Status ReadPattern(const json& step, std::string* pattern, bool* is_regex) {
  if (JsonHas(step, "pattern")) {
    const json& value = step.at("pattern");
    for (const bool regex : {false, true}) {
      ASSIGN_OR_RETURN(std::optional<std::string> text, JsonString(value, regex ? "Regex" : "String"));
      if (!text) continue;
      *pattern = *std::move(text);
      *is_regex = regex;
      return OkStatus();
    }
  }
  return InvalidArgumentError("tokenizer.json: want a pattern {{String}} or {{Regex}}, found none");
}

Status ReadNormalizer(const std::string& type, const json& value, TokenizerSpec* spec) {
  using Kind = NormalizerStep::Kind;
  NormalizerStep step;
  if (type == "Prepend") {
    step.kind = Kind::kPrepend;
    ASSIGN_OR_RETURN(step.content, TextOr(value, "prepend", ""));
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    RETURN_IF_ERROR(ReadPattern(value, &step.pattern, &step.pattern_is_regex));
    ASSIGN_OR_RETURN(step.content, TextOr(value, "content", ""));
  } else if (type == "NFC") {
    step.kind = Kind::kNfc;
  } else if (type == "NFD") {
    step.kind = Kind::kNfd;
  } else if (type == "NFKC") {
    step.kind = Kind::kNfkc;
  } else if (type == "NFKD") {
    step.kind = Kind::kNfkd;
  } else if (type == "Lowercase") {
    step.kind = Kind::kLowercase;
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    ASSIGN_OR_RETURN(step.strip_left, FlagOr(value, "strip_left", true));
    ASSIGN_OR_RETURN(step.strip_right, FlagOr(value, "strip_right", true));
  } else if (type == "StripAccents") {
    step.kind = Kind::kStripAccents;
  } else {
    return NotSupported("normalizer", type);
  }
  spec->normalizer.push_back(std::move(step));
  return OkStatus();
}

Status ReadBehavior(const json& value, std::string_view absent, SplitBehavior* behavior) {
  ASSIGN_OR_RETURN(const std::string name, TextOr(value, "behavior", std::string(absent)));
  if (name == "Isolated") {
    *behavior = SplitBehavior::kIsolated;
  } else if (name == "Removed") {
    *behavior = SplitBehavior::kRemoved;
  } else if (name == "MergedWithPrevious") {
    *behavior = SplitBehavior::kMergedWithPrevious;
  } else if (name == "MergedWithNext") {
    *behavior = SplitBehavior::kMergedWithNext;
  } else if (name == "Contiguous") {
    *behavior = SplitBehavior::kContiguous;
  } else {
    return NotSupported("split behavior", name);
  }
  return OkStatus();
}

// prepend_scheme, or in old files the flag add_prefix_space.
StatusOr<PrependScheme> ReadPrependScheme(const json& value) {
  ASSIGN_OR_RETURN(const std::optional<bool> add_prefix, JsonBool(value, "add_prefix_space"));
  ASSIGN_OR_RETURN(const std::string name,
                   TextOr(value, "prepend_scheme", add_prefix.value_or(true) ? "always" : "never"));
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  return NotSupported("prepend_scheme", name);
}

StatusOr<char32_t> ReadCharacter(const json& value, std::string_view key, std::string absent) {
  ASSIGN_OR_RETURN(const std::string text, TextOr(value, key, std::move(absent)));
  std::u32string characters;
  if (!DecodeUtf8(text, &characters) || characters.size() != 1) {
    return InvalidArgumentError("tokenizer.json: {}: want one character, found '{}'", key, text);
  }
  return characters[0];
}

Status ReadMetaspace(const json& value, PreTokenizerStep* step) {
  step->kind = PreTokenizerStep::Kind::kMetaspace;
  ASSIGN_OR_RETURN(step->replacement, ReadCharacter(value, "replacement", "\u2581"));
  ASSIGN_OR_RETURN(step->prepend, ReadPrependScheme(value));
  ASSIGN_OR_RETURN(step->split, FlagOr(value, "split", true));
  return OkStatus();
}

Status ReadPreTokenizer(const std::string& type, const json& value, TokenizerSpec* spec) {
  using Kind = PreTokenizerStep::Kind;
  PreTokenizerStep step;
  if (type == "Split") {
    RETURN_IF_ERROR(ReadPattern(value, &step.pattern, &step.pattern_is_regex));
    RETURN_IF_ERROR(ReadBehavior(value, "Isolated", &step.behavior));
    ASSIGN_OR_RETURN(step.invert, FlagOr(value, "invert", false));
  } else if (type == "ByteLevel") {
    step.kind = Kind::kByteLevel;
    ASSIGN_OR_RETURN(step.add_prefix_space, FlagOr(value, "add_prefix_space", true));
    ASSIGN_OR_RETURN(step.use_regex, FlagOr(value, "use_regex", true));
  } else if (type == "Metaspace") {
    RETURN_IF_ERROR(ReadMetaspace(value, &step));
  } else if (type == "Digits") {
    step.kind = Kind::kDigits;
    ASSIGN_OR_RETURN(step.individual_digits, FlagOr(value, "individual_digits", false));
  } else if (type == "Punctuation") {
    step.kind = Kind::kPunctuation;
    RETURN_IF_ERROR(ReadBehavior(value, "Isolated", &step.behavior));
  } else if (type == "Whitespace") {
    step.kind = Kind::kWhitespace;
  } else if (type == "WhitespaceSplit") {
    step.kind = Kind::kWhitespaceSplit;
  } else if (type == "BertPreTokenizer") {
    step.kind = Kind::kBert;
  } else if (type == "CharDelimiterSplit") {
    ASSIGN_OR_RETURN(const char32_t delimiter, ReadCharacter(value, "delimiter", ""));
    AppendUtf8(delimiter, &step.pattern);
    step.pattern_is_regex = false;
    step.behavior = SplitBehavior::kRemoved;
  } else {
    return NotSupported("pre_tokenizer", type);
  }
  spec->pre_tokenizer.push_back(std::move(step));
  return OkStatus();
}

// {"id": "<s>", "ids": [1], ..} of a template's special_tokens.
Status AppendTemplateIds(const json& value, const std::string& name, std::vector<TokenId>* ids) {
  const auto special = value.find("special_tokens");
  if (special != value.end() && special->is_object() && special->contains(name)) {
    const json& entry = special->at(name);
    const auto list = entry.is_object() ? entry.find("ids") : entry.end();
    if (entry.is_object() && list != entry.end() && list->is_array()) {
      for (const json& id : *list) {
        if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) {
          return InvalidArgumentError("tokenizer.json: post_processor: '{}' has an id that is no token id",
                                      name);
        }
        ids->push_back(id.get<TokenId>());
      }
      return OkStatus();
    }
  }
  return InvalidArgumentError("tokenizer.json: post_processor: no ids for the special token '{}'", name);
}

Status ReadTemplate(const json& value, TokenizerSpec* spec) {
  const auto single = value.find("single");
  if (single == value.end() || !single->is_array()) {
    return InvalidArgumentError("tokenizer.json: TemplateProcessing: want an array single");
  }
  bool behind_text = false;
  for (const json& element : *single) {
    if (JsonHas(element, "Sequence") && !behind_text) {
      behind_text = true;
    } else if (JsonHas(element, "SpecialToken")) {
      ASSIGN_OR_RETURN(const std::string name, TextOr(element.at("SpecialToken"), "id", ""));
      RETURN_IF_ERROR(AppendTemplateIds(value, name, behind_text ? &spec->suffix : &spec->prefix));
    } else {
      return NotSupported("TemplateProcessing element", "other than SpecialToken and one Sequence");
    }
  }
  return OkStatus();
}

// ["[CLS]", 101] of BERT's and RoBERTa's post-processors.
Status ReadPair(const json& value, const char* key, std::vector<TokenId>* ids) {
  if (!JsonHas(value, key) || !value.at(key).is_array() || value.at(key).size() != 2 ||
      !value.at(key)[1].is_number_unsigned() || value.at(key)[1].get<uint64_t>() > INT32_MAX) {
    return InvalidArgumentError("tokenizer.json: post_processor: {}: want [token, id]", key);
  }
  ids->push_back(value.at(key)[1].get<TokenId>());
  return OkStatus();
}

Status ReadPostProcessor(const std::string& type, const json& value, TokenizerSpec* spec) {
  if (type == "ByteLevel") return OkStatus();  // trims offsets only
  if (type == "TemplateProcessing") return ReadTemplate(value, spec);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    RETURN_IF_ERROR(ReadPair(value, "cls", &spec->prefix));
    return ReadPair(value, "sep", &spec->suffix);
  }
  return NotSupported("post_processor", type);
}

Status ReadDecoder(const std::string& type, const json& value, TokenizerSpec* spec) {
  using Kind = DecoderStep::Kind;
  DecoderStep step;
  if (type == "ByteLevel") {
    step.kind = Kind::kByteLevel;
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    bool is_regex = false;
    RETURN_IF_ERROR(ReadPattern(value, &step.pattern, &is_regex));
    if (is_regex) return NotSupported("decoder", "Replace with a Regex");
    ASSIGN_OR_RETURN(step.content, TextOr(value, "content", ""));
  } else if (type == "ByteFallback") {
    step.kind = Kind::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = Kind::kFuse;
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    ASSIGN_OR_RETURN(const char32_t content, ReadCharacter(value, "content", " "));
    AppendUtf8(content, &step.content);
    ASSIGN_OR_RETURN(const std::optional<uint32_t> start, JsonU32(value, "start"));
    ASSIGN_OR_RETURN(const std::optional<uint32_t> stop, JsonU32(value, "stop"));
    if (stop.value_or(0) != 0) return NotSupported("decoder", "Strip with stop > 0");
    step.start_count = start.value_or(0);
  } else if (type == "Metaspace") {
    step.kind = Kind::kMetaspace;
    ASSIGN_OR_RETURN(const char32_t replacement, ReadCharacter(value, "replacement", "\u2581"));
    AppendUtf8(replacement, &step.content);
    ASSIGN_OR_RETURN(step.prepend, ReadPrependScheme(value));
  } else if (type == "WordPiece") {
    step.kind = Kind::kWordPiece;
    ASSIGN_OR_RETURN(step.content, TextOr(value, "prefix", "##"));
    ASSIGN_OR_RETURN(step.cleanup, FlagOr(value, "cleanup", true));
  } else {
    return NotSupported("decoder", type);
  }
  spec->decoder.push_back(std::move(step));
  return OkStatus();
}

}  // namespace

Status ReadTokenizerJsonSteps(const json& root, TokenizerSpec* spec) {
  struct Section {
    const char* key;
    const char* list_key;
    Status (*read)(const std::string&, const json&, TokenizerSpec*);
  };
  for (const Section& section : {Section{"normalizer", "normalizers", &ReadNormalizer},
                                 Section{"pre_tokenizer", "pretokenizers", &ReadPreTokenizer},
                                 Section{"post_processor", "processors", &ReadPostProcessor},
                                 Section{"decoder", "decoders", &ReadDecoder}}) {
    if (!JsonHas(root, section.key)) continue;
    RETURN_IF_ERROR(ForEachStep(
        root.at(section.key), section.key, section.list_key, 0,
        [&](const std::string& type, const json& step) { return section.read(type, step, spec); }));
  }
  return OkStatus();
}

}  // namespace paceline
