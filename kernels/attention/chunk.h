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

// Widens `count` elements of F16 or F32 and pads with zeros to padded_dim.
void WidenVector(DType dtype, const std::byte* from, size_t count, size_t padded_dim, float* to);

// Query heads that are computed together.
inline constexpr size_t kAttentionHeadBlock = 4;

// Adds one chunk to the running softmax. chunk_values: scratch, [kAttentionHeadBlock, padded_dim].
void AccumulateChunk(const ChunkArgs& args, float* chunk_values, SoftmaxState& state);

}  // namespace paceline::kernels
