#include "common/decoder/layer_weights.h"

#include <fmt/format.h>

#include <string>

#include "kernels/dequantize/dequantize.h"

namespace paceline {
namespace {

Status CheckShape(const WeightView& view, uint64_t rows, uint64_t cols) {
  if (view.rows != rows || view.cols != cols) {
    return InvalidArgumentError("tensor {}: want shape [{}, {}], found [{}, {}]", view.name, rows, cols,
                                view.rows, view.cols);
  }
  return OkStatus();
}

// Names within a block are GGUF's: blk.3.attn_q.weight and .bias.
StatusOr<Linear> LoadLinear(const WeightSource& source, uint32_t layer, std::string_view part, uint64_t rows,
                            uint64_t cols, bool has_bias) {
  const std::string prefix = fmt::format("blk.{}.{}", layer, part);
  Linear linear;
  ASSIGN_OR_RETURN(linear.weight, LoadMatrix(source, prefix + ".weight", rows, cols));
  if (has_bias) {
    ASSIGN_OR_RETURN(linear.bias, LoadVector(source, prefix + ".bias", rows));
  }
  return linear;
}

}  // namespace

StatusOr<kernels::WeightMatrix> LoadMatrix(const WeightSource& source, std::string_view name, uint64_t rows,
                                           uint64_t cols) {
  ASSIGN_OR_RETURN(const WeightView view, source.Get(name));
  RETURN_IF_ERROR(CheckShape(view, rows, cols));
  const kernels::WeightMatrix matrix = {
      .dtype = view.dtype, .data = view.data.data(), .rows = rows, .cols = cols};
  RETURN_IF_ERROR(Annotate(kernels::CheckMatmulWeights(matrix), view.name));
  return matrix;
}

StatusOr<std::vector<float>> LoadVector(const WeightSource& source, std::string_view name,
                                        uint64_t elements) {
  ASSIGN_OR_RETURN(const WeightView view, source.Get(name));
  RETURN_IF_ERROR(CheckShape(view, 1, elements));
  std::vector<float> values(elements);
  RETURN_IF_ERROR(
      Annotate(kernels::DequantizeRow(view.dtype, view.data.data(), values.data(), elements), view.name));
  return values;
}

StatusOr<LayerWeights> LoadLayer(const WeightSource& source, uint32_t layer) {
  const ModelConfig& config = source.config();
  const uint64_t hidden = config.hidden_size, mlp = config.intermediate_size;
  const uint64_t q_width = uint64_t{config.num_heads} * config.head_dim;
  const uint64_t kv_width = uint64_t{config.num_kv_heads} * config.head_dim;
  const bool qkv_bias = config.attention_bias, o_bias = config.attention_output_bias;
  LayerWeights w;
  ASSIGN_OR_RETURN(w.attention_norm,
                   LoadVector(source, fmt::format("blk.{}.attn_norm.weight", layer), hidden));
  ASSIGN_OR_RETURN(w.q, LoadLinear(source, layer, "attn_q", q_width, hidden, qkv_bias));
  ASSIGN_OR_RETURN(w.k, LoadLinear(source, layer, "attn_k", kv_width, hidden, qkv_bias));
  ASSIGN_OR_RETURN(w.v, LoadLinear(source, layer, "attn_v", kv_width, hidden, qkv_bias));
  ASSIGN_OR_RETURN(w.o, LoadLinear(source, layer, "attn_output", hidden, q_width, o_bias));
  ASSIGN_OR_RETURN(w.mlp_norm, LoadVector(source, fmt::format("blk.{}.ffn_norm.weight", layer), hidden));
  ASSIGN_OR_RETURN(w.gate, LoadLinear(source, layer, "ffn_gate", mlp, hidden, config.mlp_bias));
  ASSIGN_OR_RETURN(w.up, LoadLinear(source, layer, "ffn_up", mlp, hidden, config.mlp_bias));
  ASSIGN_OR_RETURN(w.down, LoadLinear(source, layer, "ffn_down", hidden, mlp, config.mlp_bias));
  return w;
}

}  // namespace paceline
