// ModelConfig from a Hugging Face config.json, keys of transformers 4 and 5 (defaults: their LlamaConfig,
// MistralConfig).

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/model/model_config.h"
#include "common/model/printable.h"
#include "common/model/strict_json.h"

namespace paceline {
namespace {

using nlohmann::json;

// What a missing key means, per architecture.
struct Family {
  std::string_view architecture;
  std::string_view model_type;
  uint32_t intermediate_size;
  uint32_t num_kv_heads;  // 0: as many as heads
  uint32_t context_len;
  uint32_t sliding_window;  // 0: none
  bool has_bias_keys;
};
constexpr std::array<Family, 2> kFamilies = {{
    {"LlamaForCausalLM", "llama", 11008, 0, 2048, 0, true},
    {"MistralForCausalLM", "mistral", 14336, 8, 131072, 4096, false},
}};

std::string SupportedList() {
  std::string list;
  for (const Family& family : kFamilies)
    list += (list.empty() ? "" : ", ") + std::string(family.architecture);
  return list;
}

StatusOr<Family> FindFamily(const json& config) {
  std::string named;
  const auto list = config.find("architectures");
  if (list != config.end() && list->is_array() && !list->empty() && list->front().is_string()) {
    named = list->front().get<std::string>();
  } else {
    ASSIGN_OR_RETURN(const std::optional<std::string> type, JsonString(config, "model_type"));
    named = type.value_or("");
  }
  for (const Family& family : kFamilies) {
    if (named == family.architecture || named == family.model_type) return family;
  }
  return InvalidArgumentError("architecture {} is not supported (architectures that are: {})",
                              named.empty() ? "(none named)" : Printable(named), SupportedList());
}

// Keys whose presence with another value than null changes the maths or the storage.
Status RefuseForeignKeys(const json& config) {
  constexpr std::array<std::string_view, 7> kRefused = {
      "quantization_config", "attn_logit_softcapping", "final_logit_softcapping",
      "logit_scale",         "query_pre_attn_scalar",  "num_local_experts",
      "layer_scale"};
  for (const std::string_view key : kRefused) {
    if (JsonHas(config, key)) return InvalidArgumentError("{}: models that need it are not supported", key);
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> act, JsonString(config, "hidden_act"));
  if (act && *act != "silu" && *act != "swish") {
    return InvalidArgumentError("hidden_act {}: not supported (silu is)", Printable(*act));
  }
  return OkStatus();
}

Status RefuseSlidingWindow(const json& config, const Family& family, uint32_t context_len) {
  ASSIGN_OR_RETURN(const std::optional<uint32_t> stated, JsonU32(config, "sliding_window"));
  // An explicit null means none; a missing key means the family's default.
  const uint32_t window = stated.value_or(config.contains("sliding_window") ? 0 : family.sliding_window);
  if (window != 0 && window < context_len) {
    return InvalidArgumentError(
        "sliding_window {} is below max_position_embeddings {}: sliding-window attention is not supported",
        window, context_len);
  }
  const auto layer_types = config.find("layer_types");
  if (layer_types == config.end() || layer_types->is_null()) return OkStatus();
  if (!layer_types->is_array()) return InvalidArgumentError("layer_types: want a list");
  for (const json& type : *layer_types) {
    const bool slides = type == "sliding_attention" && window >= context_len;
    if (type != "full_attention" && !slides) {
      return InvalidArgumentError("layer_types: {} is not supported (full_attention is)",
                                  Printable(type.dump(-1, ' ', true)));
    }
  }
  return OkStatus();
}

StatusOr<DType> StatedDType(const json& config) {
  const std::string_view key = JsonHas(config, "dtype") ? "dtype" : "torch_dtype";
  ASSIGN_OR_RETURN(const std::optional<std::string> name, JsonString(config, key));
  if (!name || *name == "float32") return DType::kF32;
  if (*name == "float16") return DType::kF16;
  if (*name == "bfloat16") return DType::kBF16;
  return InvalidArgumentError("{} {}: want float32, float16 or bfloat16", key, Printable(*name));
}

// The object that holds rope settings: rope_parameters (transformers 5) or rope_scaling (4); null when
// neither does.
StatusOr<json> RopeObject(const json& config) {
  const bool v5 = JsonHas(config, "rope_parameters");
  const bool v4 = JsonHas(config, "rope_scaling");
  if (v4 && v5) return InvalidArgumentError("rope_parameters and rope_scaling are both there; keep one");
  if (!v4 && !v5) return json();
  const std::string key = v5 ? "rope_parameters" : "rope_scaling";
  const json& object = config.at(key);
  if (!object.is_object()) return InvalidArgumentError("{}: want an object or null", key);
  if (v4 && !JsonHas(object, "rope_type") && !JsonHas(object, "type")) {
    return InvalidArgumentError("rope_scaling: rope_type is missing");
  }
  return object;
}

StatusOr<double> Required(const json& object, std::string_view key) {
  ASSIGN_OR_RETURN(const std::optional<double> number, JsonNumber(object, key));
  if (!number) return InvalidArgumentError("rope settings: {} is missing", key);
  return *number;
}

StatusOr<RopeScaling> ReadRopeScaling(const json& rope, uint32_t context_len) {
  RopeScaling scaling;
  ASSIGN_OR_RETURN(const std::optional<std::string> old_type, JsonString(rope, "type"));
  ASSIGN_OR_RETURN(const std::optional<std::string> new_type, JsonString(rope, "rope_type"));
  const std::string type = new_type.value_or(old_type.value_or("default"));
  if (type == "default") return scaling;
  if (type != "linear" && type != "llama3") {
    return InvalidArgumentError("rope type {} is not supported (default, linear and llama3 are)",
                                Printable(type));
  }
  ASSIGN_OR_RETURN(scaling.factor, Required(rope, "factor"));
  scaling.kind = type == "linear" ? RopeScalingKind::kLinear : RopeScalingKind::kLlama3;
  if (scaling.kind == RopeScalingKind::kLinear) return scaling;
  ASSIGN_OR_RETURN(scaling.low_freq_factor, Required(rope, "low_freq_factor"));
  ASSIGN_OR_RETURN(scaling.high_freq_factor, Required(rope, "high_freq_factor"));
  ASSIGN_OR_RETURN(const std::optional<uint32_t> original, JsonU32(rope, "original_max_position_embeddings"));
  scaling.original_context_len = original.value_or(context_len);
  return scaling;
}

Status ReadRope(const json& config, ModelConfig& out) {
  out.rope_pairing = RopePairing::kHalves;
  ASSIGN_OR_RETURN(const json rope, RopeObject(config));
  ASSIGN_OR_RETURN(out.rope_scaling, ReadRopeScaling(rope, out.context_len));

  ASSIGN_OR_RETURN(const std::optional<double> outer, JsonNumber(config, "rope_theta"));
  ASSIGN_OR_RETURN(const std::optional<double> inner, JsonNumber(rope, "rope_theta"));
  if (outer && inner && *outer != *inner) {
    return InvalidArgumentError("rope_theta is {} and in rope_parameters {}; want one value", *outer, *inner);
  }
  const std::optional<double> theta = inner ? inner : outer;
  const bool llama3_kind = out.vocab_size == 128256 || out.rope_scaling.kind == RopeScalingKind::kLlama3;
  if (!theta && llama3_kind) {
    return InvalidArgumentError(
        "rope_theta is missing: a Llama 3 model with the default of 10000 answers wrongly");
  }
  out.rope_theta = theta.value_or(10000);

  ASSIGN_OR_RETURN(const std::optional<double> outer_part, JsonNumber(config, "partial_rotary_factor"));
  ASSIGN_OR_RETURN(const std::optional<double> inner_part, JsonNumber(rope, "partial_rotary_factor"));
  const double part = inner_part.value_or(outer_part.value_or(1.0));
  if (!(part > 0 && part <= 1)) {
    return InvalidArgumentError("partial_rotary_factor: want above 0 and at most 1, found {}", part);
  }
  out.rope_dim = static_cast<uint32_t>(out.head_dim * part);
  return OkStatus();
}

StatusOr<uint32_t> U32Or(const json& config, std::string_view key, uint32_t absent) {
  ASSIGN_OR_RETURN(const std::optional<uint32_t> value, JsonU32(config, key));
  return value.value_or(absent);
}

StatusOr<bool> BoolOr(const json& config, std::string_view key, bool absent) {
  ASSIGN_OR_RETURN(const std::optional<bool> value, JsonBool(config, key));
  return value.value_or(absent);
}

Status ReadShape(const json& config, const Family& family, ModelConfig& out) {
  ASSIGN_OR_RETURN(out.vocab_size, U32Or(config, "vocab_size", 32000));
  ASSIGN_OR_RETURN(out.hidden_size, U32Or(config, "hidden_size", 4096));
  ASSIGN_OR_RETURN(out.intermediate_size, U32Or(config, "intermediate_size", family.intermediate_size));
  ASSIGN_OR_RETURN(out.num_layers, U32Or(config, "num_hidden_layers", 32));
  ASSIGN_OR_RETURN(out.num_heads, U32Or(config, "num_attention_heads", 32));
  if (out.num_heads == 0) return InvalidArgumentError("num_attention_heads: want 1 or more, found 0");
  // Mistral's 8 stands for a missing key only; an explicit null means one per head.
  const bool null_kv = config.contains("num_key_value_heads") || family.num_kv_heads == 0;
  ASSIGN_OR_RETURN(out.num_kv_heads,
                   U32Or(config, "num_key_value_heads", null_kv ? out.num_heads : family.num_kv_heads));
  ASSIGN_OR_RETURN(out.head_dim, U32Or(config, "head_dim", out.hidden_size / out.num_heads));
  ASSIGN_OR_RETURN(out.context_len, U32Or(config, "max_position_embeddings", family.context_len));
  ASSIGN_OR_RETURN(const std::optional<double> eps, JsonNumber(config, "rms_norm_eps"));
  out.rms_norm_eps = static_cast<float>(eps.value_or(1e-6));
  return OkStatus();
}

}  // namespace

StatusOr<ModelConfig> ModelConfigFromJson(const json& config, std::string_view name) {
  if (!config.is_object()) return InvalidArgumentError("want a JSON object");
  ModelConfig out;
  ASSIGN_OR_RETURN(const Family family, FindFamily(config));
  RETURN_IF_ERROR(RefuseForeignKeys(config));
  out.architecture = "llama";
  out.name = Printable(name);
  RETURN_IF_ERROR(ReadShape(config, family, out));
  RETURN_IF_ERROR(RefuseSlidingWindow(config, family, out.context_len));
  RETURN_IF_ERROR(ReadRope(config, out));
  ASSIGN_OR_RETURN(out.tie_word_embeddings, BoolOr(config, "tie_word_embeddings", false));
  if (family.has_bias_keys) {
    ASSIGN_OR_RETURN(out.attention_bias, BoolOr(config, "attention_bias", false));
    out.attention_output_bias = out.attention_bias;
    ASSIGN_OR_RETURN(out.mlp_bias, BoolOr(config, "mlp_bias", false));
  }
  ASSIGN_OR_RETURN(out.dtype, StatedDType(config));
  RETURN_IF_ERROR(CheckModelConfig(out));
  return out;
}

}  // namespace paceline
