#include "tests/support/tiny_llama.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "common/base/check.h"
#include "common/base/philox.h"
#include "common/model/weight_table.h"
#include "tests/support/tiny_tokenizer.h"

namespace paceline::testing {
namespace {

// FNV-1a: stable over machines, unlike std::hash.
uint64_t HashName(std::string_view name) {
  uint64_t hash = 1469598103934665603ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

// Uniform in (-1, 1).
float RandomAt(uint64_t key, uint64_t index) {
  const auto low = static_cast<uint32_t>(index / 4);
  const auto words = Philox4x32(key, {low, static_cast<uint32_t>(index / 4 >> 32), 0, 0});
  return (static_cast<float>(words[index % 4] >> 8) + 0.5f) / 8388608.0f - 1.0f;
}

// Where the element of the canonical (Hugging Face order) row goes: GGUF pairs neighbours, so of each head
// row s * (d / 2) + i becomes row 2 i + s.
uint64_t SourceRow(uint64_t row, uint32_t head_dim, bool interleaved) {
  if (!interleaved) return row;
  const uint64_t head = row / head_dim;
  const uint64_t in_head = row % head_dim;
  return head * head_dim + (in_head % 2) * (head_dim / 2) + in_head / 2;
}

bool IsQueryOrKey(std::string_view name) {
  return name.find(".attn_q.") != std::string_view::npos || name.find(".attn_k.") != std::string_view::npos;
}

std::vector<float> Values(const TinyLlamaOptions& options, const TensorSpec& spec, bool interleaved) {
  const bool norm = spec.name.ends_with("norm.weight");
  const bool embedding = spec.name == "token_embd.weight";
  const float spread = norm || spec.is_vector ? 0.25f
                       : embedding            ? 1.0f
                                              : std::sqrt(3.0f / static_cast<float>(spec.cols));
  const uint64_t key = options.seed * 0x9E3779B97F4A7C15ull ^ HashName(spec.name);
  // A bias is one row of outputs; permute it like the rows of its matrix.
  const uint64_t rows = spec.is_vector ? spec.cols : spec.rows;
  const uint64_t cols = spec.is_vector ? 1 : spec.cols;
  const bool permute = interleaved && IsQueryOrKey(spec.name);
  std::vector<float> values(rows * cols);
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t source = SourceRow(row, options.head_dim, permute);
    for (uint64_t col = 0; col < cols; ++col) {
      values[row * cols + col] = (norm ? 1.0f : 0.0f) + spread * RandomAt(key, source * cols + col);
    }
  }
  return values;
}

// f_i = frequency before over after scaling: what the GGUF converter stores.
std::vector<float> RopeFactors(const TinyLlamaOptions& options) {
  ModelConfig config = TinyLlamaConfig(options);
  config.rope_scaling = {};
  const std::vector<double> plain = RopeInverseFrequencies(config);
  config.rope_scaling = options.rope_scaling;
  const std::vector<double> scaled = RopeInverseFrequencies(config);
  std::vector<float> factors;
  for (size_t i = 0; i < plain.size(); ++i) factors.push_back(static_cast<float>(plain[i] / scaled[i]));
  return factors;
}

template <typename T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

int Rounded(float value, int low, int high) {
  return std::clamp(static_cast<int>(std::lround(value)), low, high);
}

void AppendNibbles(std::string& out, const std::array<int, 32>& q) {
  for (int e = 0; e < 16; ++e) out += static_cast<char>(q[e] | (q[e + 16] << 4));
}

// One block of 32 values; simple rounding, no search for the best scale.
void AppendBlock(std::string& out, DType dtype, const float* x) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float extreme = std::abs(*low) > std::abs(*high) ? *low : *high;
  const float scale = dtype == DType::kQ8_0   ? std::abs(extreme) / 127
                      : dtype == DType::kQ4_0 ? extreme / -8
                                              : (*high - *low) / 15;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  Append(out, FloatToHalf(scale));
  std::array<int, 32> q = {};
  if (dtype == DType::kQ8_0) {
    for (int e = 0; e < 32; ++e) out += static_cast<char>(Rounded(x[e] * inverse, -127, 127));
    return;
  }
  if (dtype == DType::kQ4_1) Append(out, FloatToHalf(*low));
  for (int e = 0; e < 32; ++e) {
    q[e] =
        dtype == DType::kQ4_0 ? Rounded(x[e] * inverse + 8, 0, 15) : Rounded((x[e] - *low) * inverse, 0, 15);
  }
  AppendNibbles(out, q);
}

void AddArchitecture(const TinyLlamaOptions& options, GgufBuilder& builder) {
  builder.AddString("general.architecture", "llama").AddString("general.name", "Tiny llama");
  builder.AddU32("llama.block_count", options.num_layers);
  builder.AddU32("llama.context_length", options.context_len);
  builder.AddU32("llama.embedding_length", options.hidden_size);
  builder.AddU32("llama.feed_forward_length", options.intermediate_size);
  builder.AddU32("llama.attention.head_count", options.num_heads);
  builder.AddU32("llama.attention.head_count_kv", options.num_kv_heads);
  builder.AddU32("llama.attention.key_length", options.head_dim);
  builder.AddU32("llama.attention.value_length", options.head_dim);
  builder.AddU32("llama.vocab_size", options.vocab_size);
  builder.AddU32("llama.rope.dimension_count", options.head_dim);
  builder.AddF32("llama.rope.freq_base", static_cast<float>(options.rope_theta));
  builder.AddF32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  if (options.rope_scaling.kind == RopeScalingKind::kLinear) {
    builder.AddString("llama.rope.scaling.type", "linear");
    builder.AddF32("llama.rope.scaling.factor", static_cast<float>(options.rope_scaling.factor));
  }
}

std::string RopeScalingJson(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScalingKind::kNone:
      return "null";
    case RopeScalingKind::kLinear:
      return fmt::format(R"({{"rope_type":"linear","factor":{}}})", scaling.factor);
    case RopeScalingKind::kLlama3:
      break;
  }
  return fmt::format(
      R"({{"rope_type":"llama3","factor":{},"low_freq_factor":{},"high_freq_factor":{},"original_max_position_embeddings":{}}})",
      scaling.factor, scaling.low_freq_factor, scaling.high_freq_factor, scaling.original_context_len);
}

std::string_view TorchName(DType dtype) {
  return dtype == DType::kF16 ? "float16" : dtype == DType::kBF16 ? "bfloat16" : "float32";
}

}  // namespace

ModelConfig TinyLlamaConfig(const TinyLlamaOptions& options) {
  ModelConfig config;
  config.architecture = "llama";
  config.name = "Tiny llama";
  config.vocab_size = options.vocab_size;
  config.hidden_size = options.hidden_size;
  config.intermediate_size = options.intermediate_size;
  config.num_layers = options.num_layers;
  config.num_heads = options.num_heads;
  config.num_kv_heads = options.num_kv_heads;
  config.head_dim = options.head_dim;
  config.context_len = options.context_len;
  config.rms_norm_eps = 1e-5f;
  config.rope_theta = options.rope_theta;
  config.rope_dim = options.head_dim;
  config.rope_pairing = RopePairing::kInterleaved;
  if (options.rope_scaling.kind == RopeScalingKind::kLinear) config.rope_scaling = options.rope_scaling;
  config.tie_word_embeddings = options.tied;
  config.attention_bias = options.attention_bias;
  config.attention_output_bias = options.attention_output_bias;
  config.mlp_bias = options.mlp_bias;
  config.dtype = options.dtype;
  return config;
}

std::string QuantizeRows(DType dtype, const std::vector<float>& values, uint64_t cols) {
  std::string out;
  switch (dtype) {
    case DType::kF32:
      for (const float value : values) Append(out, value);
      return out;
    case DType::kF16:
      for (const float value : values) Append(out, FloatToHalf(value));
      return out;
    case DType::kBF16:
      for (const float value : values) Append(out, FloatToBFloat16(value));
      return out;
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
      CHECK_EQ(cols % 32, 0u) << "columns of a quantised tensor";
      for (size_t i = 0; i < values.size(); i += 32) AppendBlock(out, dtype, values.data() + i);
      return out;
    default:
      CHECK(false) << "no quantiser for " << Name(dtype);
      return out;
  }
}

GgufBuilder TinyLlamaGguf(const TinyLlamaOptions& options) {
  GgufBuilder builder;
  AddArchitecture(options, builder);
  if (options.tokenizer) AddTinyTokenizer(options.vocab_size, builder);
  const bool factors = options.rope_scaling.kind == RopeScalingKind::kLlama3;
  for (const TensorSpec& spec : TensorSpecs(TinyLlamaConfig(options), Container::kGguf)) {
    if (spec.name == "output.weight" && options.tied) continue;
    if (spec.name == "rope_freqs.weight") {
      if (factors)
        builder.AddTensor(spec.name, DType::kF32, {spec.cols},
                          QuantizeRows(DType::kF32, RopeFactors(options), spec.cols));
      continue;
    }
    const DType dtype = spec.is_vector ? DType::kF32 : options.dtype;
    const std::vector<uint64_t> dims =
        spec.is_vector ? std::vector{spec.cols} : std::vector{spec.cols, spec.rows};
    builder.AddTensor(spec.name, dtype, dims, QuantizeRows(dtype, Values(options, spec, true), spec.cols));
  }
  return builder;
}

std::string TinyLlamaConfigJson(const TinyLlamaOptions& options) {
  CHECK_EQ(options.attention_bias, options.attention_output_bias) << "config.json has one key for both";
  return fmt::format(
      R"({{"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":{},"hidden_size":{},)"
      R"("intermediate_size":{},"num_hidden_layers":{},"num_attention_heads":{},"num_key_value_heads":{},)"
      R"("head_dim":{},"max_position_embeddings":{},"rms_norm_eps":1e-05,"rope_theta":{},"rope_scaling":{},)"
      R"("tie_word_embeddings":{},"attention_bias":{},"mlp_bias":{},"hidden_act":"silu","torch_dtype":"{}",)"
      R"("bos_token_id":1,"eos_token_id":2}})",
      options.vocab_size, options.hidden_size, options.intermediate_size, options.num_layers,
      options.num_heads, options.num_kv_heads, options.head_dim, options.context_len, options.rope_theta,
      RopeScalingJson(options.rope_scaling), options.tied, options.attention_bias, options.mlp_bias,
      TorchName(options.dtype));
}

SafetensorsBuilder TinyLlamaSafetensors(const TinyLlamaOptions& options) {
  SafetensorsBuilder builder;
  for (const TensorSpec& spec : TensorSpecs(TinyLlamaConfig(options), Container::kHuggingFace)) {
    if (spec.name == "output.weight" && options.tied) continue;
    const std::vector<uint64_t> shape =
        spec.is_vector ? std::vector{spec.cols} : std::vector{spec.rows, spec.cols};
    builder.Add(spec.file_name, options.dtype, shape,
                QuantizeRows(options.dtype, Values(options, spec, false), spec.cols));
  }
  return builder;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  CHECK(!out.fail()) << "cannot write " << path;
}

}  // namespace paceline::testing
