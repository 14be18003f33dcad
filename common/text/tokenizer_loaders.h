// Readers of the tokenizer files that models ship with; each fills a TokenizerSpec.
//
// Pure functions of their input. What a file asks for and the engine does not know is refused by name (the
// type of a step, a flag), never skipped. InvalidArgument for a damaged or contradictory file.
//
//   ASSIGN_OR_RETURN(TokenizerSpec spec, TokenizerSpecFromTokenizerJson(text, tokenizer_config_text));
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/tokenizer_spec.h"

namespace paceline {

class GgufFile;

// tokenizer.json of Hugging Face. `tokenizer_config` is the text of tokenizer_config.json, empty if there is
// none: it names BOS and EOS, and for the Llama and Gemma classes it decides what is put in front of a text.
StatusOr<TokenizerSpec> TokenizerSpecFromTokenizerJson(std::string_view tokenizer_json,
                                                       std::string_view tokenizer_config);

// tokenizer.model of SentencePiece (a protobuf ModelProto), BPE or unigram. BOS in front unless
// tokenizer_config says otherwise.
StatusOr<TokenizerSpec> TokenizerSpecFromSentencePiece(std::string_view model_proto,
                                                       std::string_view tokenizer_config = {});

// tokenizer.ggml.* of a GGUF file: models "llama" and "gpt2".
StatusOr<TokenizerSpec> TokenizerSpecFromGguf(const GgufFile& file);

// Parts of the above that are files of their own.

// normalizer, pre_tokenizer, post_processor and decoder of tokenizer.json.
Status ReadTokenizerJsonSteps(const nlohmann::json& root, TokenizerSpec* spec);

// What tokenizer.ggml.pre names.
struct GgufPreTokenizer {
  std::vector<PreTokenizerStep> steps;
  bool ignore_merges = false;
  bool adds_bos = false;
  bool composes = false;  // NFC first, as Qwen's own file does (llama.cpp leaves it out)
};
StatusOr<GgufPreTokenizer> GgufPreTokenizerNamed(std::string_view name);

// BOS, EOS and the rules of tokenizer_config.json on top of a spec; `adds_bos_by_class` says whether the
// file's own format leaves BOS to the class (SentencePiece).
Status ApplyTokenizerConfig(std::string_view tokenizer_config, bool adds_bos_by_class, TokenizerSpec* spec);

}  // namespace paceline
