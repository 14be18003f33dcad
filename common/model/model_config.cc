#include "common/model/model_config.h"

#include <cmath>
#include <numbers>

#include "common/base/portable_math.h"
#include "common/model/gguf_file.h"
#include "common/model/hf_folder.h"
#include "common/model/model_path.h"

namespace paceline {
namespace {

// Above every published model by a factor of 8 or more; products of any three of them fit 64 bits.
constexpr uint32_t kWidthMax = 1u << 20;
constexpr uint32_t kVocabMax = 1u << 24;
constexpr uint32_t kLayersMax = 4096;
constexpr uint32_t kContextMax = 1u << 30;

Status CheckRange(std::string_view name, uint32_t value, uint32_t max) {
  if (value >= 1 && value <= max) return OkStatus();
  return InvalidArgumentError("{}: want 1 to {}, found {}", name, max, value);
}

Status CheckPositive(std::string_view name, double value) {
  if (std::isfinite(value) && value > 0) return OkStatus();
  return InvalidArgumentError("{}: want a positive number, found {}", name, value);
}

Status CheckRopeScaling(const RopeScaling& scaling) {
  if (scaling.kind == RopeScalingKind::kNone) return OkStatus();
  RETURN_IF_ERROR(CheckPositive("rope scaling factor", scaling.factor));
  if (scaling.kind == RopeScalingKind::kLinear) return OkStatus();
  RETURN_IF_ERROR(CheckPositive("rope scaling low_freq_factor", scaling.low_freq_factor));
  RETURN_IF_ERROR(CheckPositive("rope scaling high_freq_factor", scaling.high_freq_factor));
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    return InvalidArgumentError("rope scaling: want high_freq_factor above low_freq_factor, found {} and {}",
                                scaling.high_freq_factor, scaling.low_freq_factor);
  }
  return CheckRange("rope scaling original_max_position_embeddings", scaling.original_context_len,
                    kContextMax);
}

// llama3 scaling of transformers' modeling_rope_utils: long waves are stretched, short ones kept, between
// them blended.
double ScaleLlama3(double inv_freq, const RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / inv_freq;
  const auto original = static_cast<double>(scaling.original_context_len);
  if (wavelength > original / scaling.low_freq_factor) return inv_freq / scaling.factor;
  if (wavelength < original / scaling.high_freq_factor) return inv_freq;
  const double t = (original / wavelength - scaling.low_freq_factor) /
                   (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - t) * inv_freq / scaling.factor + t * inv_freq;
}

}  // namespace

Status CheckModelConfig(const ModelConfig& config) {
  RETURN_IF_ERROR(CheckRange("vocabulary size", config.vocab_size, kVocabMax));
  RETURN_IF_ERROR(CheckRange("hidden size", config.hidden_size, kWidthMax));
  RETURN_IF_ERROR(CheckRange("intermediate size", config.intermediate_size, kWidthMax));
  RETURN_IF_ERROR(CheckRange("layer count", config.num_layers, kLayersMax));
  RETURN_IF_ERROR(CheckRange("attention heads", config.num_heads, kWidthMax));
  RETURN_IF_ERROR(CheckRange("key/value heads", config.num_kv_heads, config.num_heads));
  RETURN_IF_ERROR(CheckRange("head size", config.head_dim, kWidthMax));
  RETURN_IF_ERROR(CheckRange("context length", config.context_len, kContextMax));
  RETURN_IF_ERROR(CheckRange("rotated elements of a head", config.rope_dim, config.head_dim));
  if (config.num_heads % config.num_kv_heads != 0) {
    return InvalidArgumentError("{} attention heads are not a multiple of {} key/value heads",
                                config.num_heads, config.num_kv_heads);
  }
  if (config.rope_dim % 2 != 0) {
    return InvalidArgumentError("{} rotated elements of a head: want an even number", config.rope_dim);
  }
  if (uint64_t{config.num_heads} * config.head_dim > kWidthMax) {
    return InvalidArgumentError("{} heads of {} elements: want at most {} together", config.num_heads,
                                config.head_dim, kWidthMax);
  }
  RETURN_IF_ERROR(CheckPositive("RMS norm epsilon", config.rms_norm_eps));
  RETURN_IF_ERROR(CheckPositive("rope theta", config.rope_theta));
  return CheckRopeScaling(config.rope_scaling);
}

std::vector<double> RopeInverseFrequencies(const ModelConfig& config) {
  const double log_theta = PortableLog(config.rope_theta);
  std::vector<double> inv_freq(config.rope_dim / 2);
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double exponent = static_cast<double>(2 * i) / config.rope_dim;
    inv_freq[i] = PortableExp(-exponent * log_theta);
    switch (config.rope_scaling.kind) {
      case RopeScalingKind::kNone:
        break;
      case RopeScalingKind::kLinear:
        inv_freq[i] /= config.rope_scaling.factor;
        break;
      case RopeScalingKind::kLlama3:
        inv_freq[i] = ScaleLlama3(inv_freq[i], config.rope_scaling);
        break;
    }
  }
  return inv_freq;
}

StatusOr<ModelConfig> LoadModelConfig(const std::string& model) {
  ASSIGN_OR_RETURN(const ModelPath where, ResolveModel(model));
  if (where.kind == ModelPath::Kind::kGguf) {
    ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(where.path));
    return ModelConfigFromGguf(file);
  }
  ASSIGN_OR_RETURN(const HfFolder folder, HfFolder::Open(where.path));
  auto config = ModelConfigFromJson(folder.config(), folder.Name());
  if (!config.ok()) return Annotate(config.status(), where.path + "/config.json");
  return config;
}

}  // namespace paceline
