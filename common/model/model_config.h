// What a decoder-only model is, whatever file it came from: shapes, norms, rope.
//
// Made from a GGUF header or a Hugging Face config.json by LoadModelConfig; checked there, so that readers
// need no further checks: a key that would change the maths is honoured or the model is refused by the key's
// name. The sources' conventions are folded in: `rope_pairing` says how the file's q/k rows pair. GGUF's
// `rope_freqs.weight` is a tensor, so it is asked from the weight source (LoadRopeInverseFrequencies).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/dtype.h"

namespace paceline {

class GgufFile;

enum class RopePairing {
  kHalves,       // element i pairs with i + d/2 (Hugging Face files of the llama family)
  kInterleaved,  // 2i pairs with 2i + 1 (GGUF arch "llama": its q/k rows are permuted)
};

enum class RopeScalingKind { kNone, kLinear, kLlama3 };

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1.0;                // > 0
  double low_freq_factor = 1.0;       // llama3
  double high_freq_factor = 4.0;      // llama3
  uint32_t original_context_len = 0;  // llama3, tokens

  bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
  std::string architecture;  // "llama" (also Mistral and SmolLM2: the same maths)
  std::string name;          // for people: general.name or the folder's name
  uint32_t vocab_size = 0;   // rows of the embedding and of the logits
  uint32_t hidden_size = 0;
  uint32_t intermediate_size = 0;
  uint32_t num_layers = 0;
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 0;  // divides num_heads
  uint32_t head_dim = 0;      // even; num_heads * head_dim need not be hidden_size
  uint32_t context_len = 0;   // tokens the model was made for
  float rms_norm_eps = 0;
  double rope_theta = 0;
  uint32_t rope_dim = 0;  // rotated elements of a head, <= head_dim
  RopePairing rope_pairing = RopePairing::kHalves;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;
  bool attention_bias = false;         // on q, k, v
  bool attention_output_bias = false;  // on o
  bool mlp_bias = false;
  DType dtype = DType::kF32;  // of the bulk of the weights, for `--dtype auto` and the handshake

  bool operator==(const ModelConfig&) const = default;
};

// MODEL of the command line (see model_path.h), config only: no tensor is looked at beyond the GGUF table.
// `dtype` is what the file states; an opened WeightSource corrects it to what the tensors are.
StatusOr<ModelConfig> LoadModelConfig(const std::string& model);

// InvalidArgument names the key that is missing, damaged or not supported.
StatusOr<ModelConfig> ModelConfigFromGguf(const GgufFile& file);
StatusOr<ModelConfig> ModelConfigFromJson(const nlohmann::json& config, std::string_view name);

// The bounds every source is held to (head counts divide, sizes are positive and small enough to multiply).
Status CheckModelConfig(const ModelConfig& config);

// rope's inverse frequencies, [rope_dim / 2] float64, scaling applied (formulas: llama3 and linear scaling of
// transformers' modeling_rope_utils). Portable maths: the same bits on every machine.
std::vector<double> RopeInverseFrequencies(const ModelConfig& config);

}  // namespace paceline
