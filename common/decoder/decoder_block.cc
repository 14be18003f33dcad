#include "common/decoder/decoder_block.h"

#include <algorithm>
#include <cmath>

#include "kernels/add/add.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/swiglu/swiglu.h"

namespace paceline {
namespace {

void Norm(const std::vector<float>& weight, const BlockShape& shape, size_t rows, StepBuffers& buffers) {
  kernels::RmsNorm({.x = buffers.residual.data(),
                    .x_stride = shape.hidden,
                    .num_rows = rows,
                    .n = shape.hidden,
                    .weight = weight.data(),
                    .eps = shape.norm_eps,
                    .y = buffers.normed.data(),
                    .y_stride = shape.hidden});
}

void AddBranch(const BlockShape& shape, size_t rows, StepBuffers& buffers) {
  kernels::Add(buffers.residual.data(), buffers.branch.data(), buffers.residual.data(), rows * shape.hidden);
}

void Rotate(float* x, uint32_t num_heads, const BlockShape& shape, const ActiveRows& rows,
            const kernels::RopeTable& rope) {
  kernels::ApplyRope({.x = x,
                      .row_stride = size_t{num_heads} * shape.head_dim,
                      .num_heads = num_heads,
                      .head_dim = shape.head_dim,
                      .positions = rows.positions},
                     rope, shape.rope_layout);
}

void RunAttention(const LayerWeights& weights, const BlockShape& shape, const kernels::RopeTable& rope,
                  const ActiveRows& rows, const kernels::KvView& kv, StepBuffers& buffers,
                  kernels::ThreadPool& pool) {
  Norm(weights.attention_norm, shape, rows.size(), buffers);
  SplitInputFor({&weights.q, &weights.k, &weights.v}, buffers.normed.data(), rows.size());
  RunLinear(weights.q, buffers.normed.data(), rows.size(), buffers.q.data(), buffers.matmul, pool);
  RunLinear(weights.k, buffers.normed.data(), rows.size(), buffers.k.data(), buffers.matmul, pool);
  RunLinear(weights.v, buffers.normed.data(), rows.size(), buffers.v.data(), buffers.matmul, pool);
  Rotate(buffers.q.data(), shape.num_heads, shape, rows, rope);
  Rotate(buffers.k.data(), shape.num_kv_heads, shape, rows, rope);

  // All rows first: a row may see another of this step, and sees it as stored.
  kernels::WriteKv(buffers.k.data(), shape.kv_width(), buffers.v.data(), shape.kv_width(), rows.writes, kv);
  kernels::Attention({.q = buffers.q.data(),
                      .q_stride = shape.q_width(),
                      .num_heads = shape.num_heads,
                      .rows = rows.paths,
                      .kv = kv,
                      .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
                      .out = buffers.mixed.data(),
                      .out_stride = shape.q_width()},
                     buffers.attention, pool);
  SplitInputFor({&weights.o}, buffers.mixed.data(), rows.size());
  RunLinear(weights.o, buffers.mixed.data(), rows.size(), buffers.branch.data(), buffers.matmul, pool);
  AddBranch(shape, rows.size(), buffers);
}

void RunMlp(const LayerWeights& weights, const BlockShape& shape, const ActiveRows& rows,
            StepBuffers& buffers, kernels::ThreadPool& pool) {
  Norm(weights.mlp_norm, shape, rows.size(), buffers);
  SplitInputFor({&weights.gate, &weights.up}, buffers.normed.data(), rows.size());
  RunLinear(weights.gate, buffers.normed.data(), rows.size(), buffers.gate.data(), buffers.matmul, pool);
  RunLinear(weights.up, buffers.normed.data(), rows.size(), buffers.up.data(), buffers.matmul, pool);
  kernels::SwiGlu(buffers.gate.data(), buffers.up.data(), buffers.gate.data(),
                  rows.size() * shape.intermediate);
  SplitInputFor({&weights.down}, buffers.gate.data(), rows.size());
  RunLinear(weights.down, buffers.gate.data(), rows.size(), buffers.branch.data(), buffers.matmul, pool);
  AddBranch(shape, rows.size(), buffers);
}

}  // namespace

BlockShape MakeBlockShape(const ModelConfig& config) {
  return {.hidden = config.hidden_size,
          .intermediate = config.intermediate_size,
          .num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .norm_eps = config.rms_norm_eps,
          .rope_layout = config.rope_pairing == RopePairing::kHalves ? kernels::RopeLayout::kHalves
                                                                     : kernels::RopeLayout::kInterleaved};
}

void ActiveRows::Reserve(size_t rows_max) {
  batch_index.reserve(rows_max);
  positions.reserve(rows_max);
  writes.reserve(rows_max);
  paths.reserve(rows_max);
}

void ActiveRows::Move(size_t from, size_t to) {
  batch_index[to] = batch_index[from];
  positions[to] = positions[from];
  writes[to] = writes[from];
  paths[to] = paths[from];
}

void ActiveRows::Truncate(size_t size) {
  batch_index.resize(size);
  positions.resize(size);
  writes.resize(size);
  paths.resize(size);
}

StepBuffers::StepBuffers(const BlockShape& shape, uint32_t rows_max, int num_threads) {
  const size_t rows = 2 * size_t{rows_max};  // linear.h runs a row as two
  for (std::vector<float>* buffer : {&residual, &normed, &branch}) buffer->resize(rows * shape.hidden);
  for (std::vector<float>* buffer : {&q, &mixed}) buffer->resize(rows * shape.q_width());
  for (std::vector<float>* buffer : {&k, &v}) buffer->resize(rows * shape.kv_width());
  for (std::vector<float>* buffer : {&gate, &up}) buffer->resize(rows * shape.intermediate);
  matmul.Reserve(rows, std::max({shape.hidden, shape.intermediate, shape.q_width()}), num_threads);
  attention.Reserve(shape.num_heads, shape.num_kv_heads, shape.head_dim, num_threads);
}

void RunBlock(const LayerWeights& weights, const BlockShape& shape, const kernels::RopeTable& rope,
              const ActiveRows& rows, const kernels::KvView& kv, StepBuffers& buffers,
              kernels::ThreadPool& pool) {
  RunAttention(weights, shape, rope, rows, kv, buffers, pool);
  RunMlp(weights, shape, rows, buffers, pool);
}

}  // namespace paceline
