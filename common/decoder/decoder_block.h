// One pre-norm decoder block of the llama family over kernels:
//
//   h += o(attention(rope(q(n1(h))), rope(k(n1(h))), v(n1(h))))      h += down(silu(gate(n2(h))) * up(n2(h)))
//
// with n = RMSNorm, grouped query heads, all in float32 between the weights (reference: transformers
// modeling_llama, LlamaDecoderLayer). Nothing here looks at how rows are grouped, so a row's bits are its
// own.
//
// Threading: the executor's thread, which lends its pool to the kernels. Memory: StepBuffers are sized once.
#pragma once

#include <cstdint>
#include <vector>

#include "common/decoder/layer_weights.h"
#include "kernels/attention/attention.h"
#include "kernels/common/thread_pool.h"
#include "kernels/matmul/matmul.h"
#include "kernels/rope/rope.h"

namespace paceline {

// Shapes that all blocks of a model share.
struct BlockShape {
  uint32_t hidden = 0;
  uint32_t intermediate = 0;
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  float norm_eps = 0;
  kernels::RopeLayout rope_layout = kernels::RopeLayout::kHalves;

  uint32_t q_width() const { return num_heads * head_dim; }
  uint32_t kv_width() const { return num_kv_heads * head_dim; }
};

BlockShape MakeBlockShape(const ModelConfig& config);

// The rows of the step that are still computed, as the kernels take them; index r is row r of the buffers.
struct ActiveRows {
  std::vector<uint32_t> batch_index;  // into the batch's rows; ascending
  std::vector<uint32_t> positions;
  std::vector<kernels::KvWriteRow> writes;
  std::vector<kernels::AttentionRow> paths;

  size_t size() const { return batch_index.size(); }
  void Reserve(size_t rows_max);
  void Clear() { Truncate(0); }
  void Move(size_t from, size_t to);
  void Truncate(size_t size);
};

// Activations of a step, [2 * rows_max, width] f32 each (linear.h runs a row as two), plus what the kernels
// need.
struct StepBuffers {
  StepBuffers(const BlockShape& shape, uint32_t rows_max, int num_threads);

  std::vector<float> residual;  // [rows, hidden]
  std::vector<float> normed;    // [rows, hidden]
  std::vector<float> q;         // [rows, q_width]
  std::vector<float> k;         // [rows, kv_width]
  std::vector<float> v;         // [rows, kv_width]
  std::vector<float> mixed;     // [rows, q_width]: attention's output
  std::vector<float> gate;      // [rows, intermediate]
  std::vector<float> up;        // [rows, intermediate]
  std::vector<float> branch;    // [rows, hidden]: what is added to the residual
  kernels::MatmulScratch matmul;
  kernels::AttentionScratch attention;
};

// Runs the block on buffers.residual in place; K and V of the rows are written to `kv` first.
void RunBlock(const LayerWeights& weights, const BlockShape& shape, const kernels::RopeTable& rope,
              const ActiveRows& rows, const kernels::KvView& kv, StepBuffers& buffers,
              kernels::ThreadPool& pool);

}  // namespace paceline
