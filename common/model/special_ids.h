// Which token ids begin and end a text, and the sampling defaults that a model ships with.
//
// End ids belong to the target and to nothing else (never to a draft). Read once at start by the coordinator.
//
//   ASSIGN_OR_RETURN(ModelDefaults defaults, LoadModelDefaults("model.gguf"));
//   if (defaults.ids.IsEos(token)) ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace paceline {

class GgufFile;
class HfFolder;

struct SpecialIds {
  std::optional<uint32_t> bos;
  std::vector<uint32_t> eos;  // sorted, unique; empty for a model that names none
  bool IsEos(uint32_t id) const;

  bool operator==(const SpecialIds&) const = default;
};

// Server-side defaults of a request (generation_config.json); the request wins. Empty = the file does not
// say.
struct GenerationDefaults {
  std::optional<double> temperature;         // >= 0
  std::optional<double> top_p;               // (0, 1]
  std::optional<uint32_t> top_k;             // 0 = all
  std::optional<double> min_p;               // [0, 1]
  std::optional<double> repetition_penalty;  // > 0
  std::optional<uint32_t> max_new_tokens;    // >= 1

  bool operator==(const GenerationDefaults&) const = default;
};

struct ModelDefaults {
  SpecialIds ids;
  GenerationDefaults generation;
};

// MODEL of the command line (model_path.h).
StatusOr<ModelDefaults> LoadModelDefaults(const std::string& model);

// eos = eos, eot and eom keys with llama.cpp's defaults, and every token whose text is a known end marker.
StatusOr<SpecialIds> SpecialIdsFromGguf(const GgufFile& file);
// eos = generation_config.json (an id or a list), else config.json; and the tokenizer's eos_token where
// tokenizer_config.json gives its id.
StatusOr<SpecialIds> SpecialIdsFromFolder(const HfFolder& folder);
StatusOr<GenerationDefaults> GenerationDefaultsFromFolder(const HfFolder& folder);

}  // namespace paceline
