// ModelConfig from the metadata of a GGUF file (keys: ggml/docs/gguf.md; meanings: llama.cpp's loader).

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "common/model/gguf_file.h"
#include "common/model/model_config.h"
#include "common/model/printable.h"

namespace paceline {
namespace {

constexpr std::string_view kArch = "llama";

std::string Key(std::string_view suffix) { return fmt::format("{}.{}", kArch, suffix); }

// Keys of other members of the family (mixtures, scaled and capped variants). Present with an effect, they
// would change the maths; `neutral` is the value that does not.
struct RefusedKey {
  std::string_view suffix;
  double neutral;
};
constexpr std::array<RefusedKey, 11> kRefusedKeys = {{
    {"expert_count", 0},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logit_scale", 1},
    {"embedding_scale", 1},
    {"residual_scale", 1},
    {"attention.scale", 0},
    {"rope.scaling.attn_factor", 1},
    {"nextn_predict_layers", 0},
}};

StatusOr<double> AnyNumber(const GgufFile& file, std::string_view key) {
  auto number = file.GetFloat(key);
  if (number.ok()) return number;
  ASSIGN_OR_RETURN(const uint32_t integer, file.GetU32(key));
  return static_cast<double>(integer);
}

Status RefuseForeignKeys(const GgufFile& file) {
  for (const RefusedKey& refused : kRefusedKeys) {
    const std::string key = Key(refused.suffix);
    if (!file.Has(key)) continue;
    ASSIGN_OR_RETURN(const double value, AnyNumber(file, key));
    if (value != refused.neutral) {
      return InvalidArgumentError("metadata key {} is {}: models that need it are not supported", key, value);
    }
  }
  return OkStatus();
}

Status RefuseSlidingWindow(const GgufFile& file, uint32_t context_len) {
  const std::string key = Key("attention.sliding_window");
  ASSIGN_OR_RETURN(const uint32_t window, file.GetU32Or(key, 0));
  if (window == 0 || window >= context_len) return OkStatus();
  return InvalidArgumentError(
      "metadata key {} is {}, below the context of {}: sliding-window attention is not supported", key,
      window, context_len);
}

// A count that may be stored per layer; equal layers are one count, others have no code here.
StatusOr<uint32_t> UniformOverLayers(const GgufFile& file, const std::string& key, uint32_t num_layers) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> values, file.GetU32OrArray(key));
  const bool array = file.Find(key)->type == GgufType::kArray;
  if (values.empty() || (array && values.size() != num_layers)) {
    return InvalidArgumentError("metadata key {}: want {} values, one per layer, found {}", key, num_layers,
                                values.size());
  }
  const auto other =
      std::find_if(values.begin(), values.end(), [&](uint32_t v) { return v != values.front(); });
  if (other != values.end()) {
    return InvalidArgumentError(
        "metadata key {}: layers differ ({} in layer 0, {} in layer {}): not supported", key, values.front(),
        *other, other - values.begin());
  }
  return values.front();
}

Status ReadHeads(const GgufFile& file, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.num_heads, UniformOverLayers(file, Key("attention.head_count"), config.num_layers));
  config.num_kv_heads = config.num_heads;
  if (file.Has(Key("attention.head_count_kv"))) {
    ASSIGN_OR_RETURN(config.num_kv_heads,
                     UniformOverLayers(file, Key("attention.head_count_kv"), config.num_layers));
  }
  if (config.num_heads == 0)
    return InvalidArgumentError("metadata key {}: want 1 or more, found 0", Key("attention.head_count"));
  const uint32_t derived = config.hidden_size / config.num_heads;
  ASSIGN_OR_RETURN(config.head_dim, file.GetU32Or(Key("attention.key_length"), derived));
  ASSIGN_OR_RETURN(const uint32_t value_length, file.GetU32Or(Key("attention.value_length"), derived));
  if (config.head_dim != value_length) {
    return InvalidArgumentError("metadata keys {} and {}: want them equal, found {} and {}",
                                Key("attention.key_length"), Key("attention.value_length"), config.head_dim,
                                value_length);
  }
  return OkStatus();
}

StatusOr<RopeScaling> ReadRopeScaling(const GgufFile& file) {
  RopeScaling scaling;
  // The converter wrote llama3 scaling into this tensor; what the keys then say is the same fact or none.
  if (file.FindTensor("rope_freqs.weight") != nullptr) return scaling;
  const std::string type_key = Key("rope.scaling.type");
  ASSIGN_OR_RETURN(const double old_factor, file.GetFloatOr(Key("rope.scale_linear"), 1));
  ASSIGN_OR_RETURN(const double factor, file.GetFloatOr(Key("rope.scaling.factor"), old_factor));
  ASSIGN_OR_RETURN(const std::string_view type, file.GetStringOr(type_key, "linear"));
  if (type == "none") return scaling;
  if (type != "linear") {
    return InvalidArgumentError("metadata key {}: want none or linear, found {}: not supported", type_key,
                                Printable(type));
  }
  // Factor 0 is llama.cpp's "not set".
  if (factor == 0 || factor == 1) return scaling;
  scaling.kind = RopeScalingKind::kLinear;
  scaling.factor = factor;
  return scaling;
}

Status ReadRope(const GgufFile& file, ModelConfig& config) {
  config.rope_pairing = RopePairing::kInterleaved;
  ASSIGN_OR_RETURN(config.rope_dim, file.GetU32Or(Key("rope.dimension_count"), config.head_dim));
  ASSIGN_OR_RETURN(config.rope_scaling, ReadRopeScaling(file));
  const std::string theta_key = Key("rope.freq_base");
  const bool llama3_kind = config.vocab_size == 128256 || file.FindTensor("rope_freqs.weight") != nullptr;
  if (llama3_kind && !file.Has(theta_key)) {
    return InvalidArgumentError(
        "metadata key {} is missing: a Llama 3 model with the default of 10000 answers wrongly", theta_key);
  }
  ASSIGN_OR_RETURN(config.rope_theta, file.GetFloatOr(theta_key, 10000));
  return OkStatus();
}

// The embedding's rows are the vocabulary of the logits; the tokenizer's list may be shorter or longer.
Status ReadVocabulary(const GgufFile& file, ModelConfig& config) {
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) return InvalidArgumentError("tensor token_embd.weight is missing");
  const uint64_t rows = embedding->rows();
  if (rows > std::numeric_limits<uint32_t>::max())
    return InvalidArgumentError("token_embd.weight has {} rows", rows);
  ASSIGN_OR_RETURN(const uint32_t stated, file.GetU32Or(Key("vocab_size"), static_cast<uint32_t>(rows)));
  if (stated != rows) {
    return InvalidArgumentError("metadata key {} is {}, but token_embd.weight has {} rows", Key("vocab_size"),
                                stated, rows);
  }
  config.vocab_size = stated;
  return OkStatus();
}

void ReadOptionalTensors(const GgufFile& file, ModelConfig& config) {
  // Layer 0 decides; the tensor check then wants the same of every layer.
  config.tie_word_embeddings = file.FindTensor("output.weight") == nullptr;
  config.attention_bias = file.FindTensor("blk.0.attn_q.bias") != nullptr;
  config.attention_output_bias = file.FindTensor("blk.0.attn_output.bias") != nullptr;
  config.mlp_bias = file.FindTensor("blk.0.ffn_up.bias") != nullptr;
  config.dtype = file.FindTensor("token_embd.weight")->dtype;
}

StatusOr<ModelConfig> Read(const GgufFile& file) {
  ModelConfig config;
  ASSIGN_OR_RETURN(const std::string_view architecture, file.GetString("general.architecture"));
  if (architecture != kArch) {
    return InvalidArgumentError("architecture {} is not supported (GGUF architectures that are: {})",
                                Printable(architecture), kArch);
  }
  config.architecture = architecture;
  RETURN_IF_ERROR(RefuseForeignKeys(file));
  ASSIGN_OR_RETURN(const std::string_view name, file.GetStringOr("general.name", ""));
  config.name = Printable(name);
  ASSIGN_OR_RETURN(config.num_layers, file.GetU32(Key("block_count")));
  ASSIGN_OR_RETURN(config.context_len, file.GetU32(Key("context_length")));
  ASSIGN_OR_RETURN(config.hidden_size, file.GetU32(Key("embedding_length")));
  ASSIGN_OR_RETURN(config.intermediate_size,
                   UniformOverLayers(file, Key("feed_forward_length"), config.num_layers));
  ASSIGN_OR_RETURN(const double eps, file.GetFloat(Key("attention.layer_norm_rms_epsilon")));
  config.rms_norm_eps = static_cast<float>(eps);
  RETURN_IF_ERROR(RefuseSlidingWindow(file, config.context_len));
  RETURN_IF_ERROR(ReadVocabulary(file, config));
  RETURN_IF_ERROR(ReadHeads(file, config));
  RETURN_IF_ERROR(ReadRope(file, config));
  ReadOptionalTensors(file, config);
  RETURN_IF_ERROR(CheckModelConfig(config));
  return config;
}

}  // namespace

StatusOr<ModelConfig> ModelConfigFromGguf(const GgufFile& file) {
  auto config = Read(file);
  if (!config.ok()) return Annotate(config.status(), file.path());
  return config;
}

}  // namespace paceline
