// The vector pieces of attention.h: one chunk of up to 64 path entries, for the query heads of one K/V head.
//
// Vectors over head_dim are padded with zeros to `padded_dim`, a multiple of 16, so that no piece has a tail.
#pragma once

#include <cstddef>

#include "kernels/attention/attention.h"

namespace paceline::kernels {

// K and V of a chunk as float32: [kAttentionChunk, padded_dim] each.
struct AttentionChunkBuffers {
  float* k = nullptr;
  float* v = nullptr;
};

// Running softmax of one row and K/V head: [heads] maxima and sums, [heads, padded_dim] weighted values.
struct SoftmaxState {
  float* maximum = nullptr;
  float* sum = nullptr;
  float* values = nullptr;
  bool empty = true;
};

struct ChunkArgs {
  const float* q = nullptr;  // [num_heads, padded_dim]
  size_t num_heads = 0;
  size_t padded_dim = 0;
  AttentionChunkBuffers kv;
  size_t num_entries = 0;  // 1 .. kAttentionChunk
  float scale = 0;
};

// Widens vectors of `head_dim` F16 or F32 elements at base + offsets[i] into to[i * padded_dim], padded with
// zeros.
struct WidenArgs {
  DType dtype = DType::kF16;
  const std::byte* base = nullptr;
  const size_t* offsets = nullptr;  // [count] bytes
  size_t count = 0;
  size_t head_dim = 0;
  size_t padded_dim = 0;
};
void WidenVectors(const WidenArgs& args, float* to);

// Query heads that are computed together.
inline constexpr size_t kAttentionHeadBlock = 4;

// Adds one chunk to the running softmax. chunk_values: scratch, [kAttentionHeadBlock, padded_dim].
void AccumulateChunk(const ChunkArgs& args, float* chunk_values, SoftmaxState& state);

}  // namespace paceline::kernels
