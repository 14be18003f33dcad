// LayerWeights: the tensors of one decoder block, as the kernels take them.
//
// Matrices are views into the model file (nothing is copied; the file's pages are the weights), norms and
// biases are float32 copies. Made at load, immutable after; lives no longer than its WeightSource.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/decoder/linear.h"
#include "common/model/model_config.h"
#include "common/model/weight_source.h"
#include "kernels/matmul/matmul.h"

namespace paceline {

struct LayerWeights {
  std::vector<float> attention_norm;  // [hidden]
  Linear q;                           // [heads * head_dim, hidden]
  Linear k;                           // [kv_heads * head_dim, hidden]
  Linear v;                           // as k
  Linear o;                           // [hidden, heads * head_dim]
  std::vector<float> mlp_norm;        // [hidden]
  Linear gate;                        // [intermediate, hidden]
  Linear up;                          // as gate
  Linear down;                        // [hidden, intermediate]
};

// `layer` counts within the whole model. Errors name the tensor.
StatusOr<LayerWeights> LoadLayer(const WeightSource& source, uint32_t layer);

// `name` is canonical ("output.weight"); InvalidArgument when the shape differs or no kernel reads the type.
StatusOr<kernels::WeightMatrix> LoadMatrix(const WeightSource& source, std::string_view name, uint64_t rows,
                                           uint64_t cols);
StatusOr<std::vector<float>> LoadVector(const WeightSource& source, std::string_view name, uint64_t elements);

}  // namespace paceline
