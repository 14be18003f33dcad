// `--speculative-config`: how drafts are made. Keys and rules are vLLM's where they exist.
//
//   {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
//   {"model": "draft.gguf", "num_speculative_tokens": 3, "draft_sample_method": "probabilistic"}
//
// Checked before any weight is read; a refusal names the key, the method and the keys it has.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "nlohmann/json_fwd.hpp"

namespace paceline {

enum class DraftMethod : uint8_t { kNone, kNgram, kDraftModel };
enum class DraftSampling : uint8_t { kGreedy, kProbabilistic };

struct SpeculativeConfig {
  DraftMethod method = DraftMethod::kNone;
  std::string model;                    // draft_model
  uint32_t num_speculative_tokens = 0;  // 1..128
  uint32_t prompt_lookup_min = 5;       // ngram, tokens
  uint32_t prompt_lookup_max = 5;
  DraftSampling sampling = DraftSampling::kGreedy;
  uint32_t max_model_len = 0;  // draft_model: 0 = the target's, bounded by the draft's own

  bool enabled() const { return method != DraftMethod::kNone; }
};

std::string_view Name(DraftMethod method);

// From the merged JSON object; an empty object means no drafts.
StatusOr<SpeculativeConfig> ParseSpeculativeConfig(const nlohmann::json& object);

}  // namespace paceline
