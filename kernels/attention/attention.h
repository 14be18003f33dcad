// Grouped-query attention over a paged K/V pool, causal along each row's own ancestor path.
//
// A row at position p sees p + 1 entries, its *path*: entry i < prefix_len is the committed position i, at
// slot i of the sequence; entry prefix_len + j is tail_slots[j], an uncommitted ancestor (oldest first, the
// row itself last). A slot becomes a place in the pool through the sequence's block table: block blocks[slot
// / block_size], offset slot % block_size. K and V of all entries, the row's own included, are written
// (WriteKv) before Attention reads them, so a value is always seen as rounded to the cache type.
//
//   worked example, block_size 4, three rows of one call:
//     seq A decodes position 5:          blocks {7, 2}, prefix_len 5, tail_slots {5}
//     path 7.0 7.1 7.2 7.3 2.0 2.1 seq B prefills positions 0 and 1:  blocks {3},    prefix_len 0, tail_slots
//     {0}     path 3.0
//                                        blocks {3},    prefix_len 0, tail_slots {0, 1}  path 3.0 3.1
//   (a row whose ancestors all sit at slot = position may as well say prefix_len = p + 1 and no tail: the
//   path is the same and so are the bits; rows of one sequence that follow one another in a call then share
//   their loads)
//
//   score_i = scale * (q . k_i),  out = sum_i softmax(score)_i * v_i,  query head h uses K/V head h / (heads
//   / kv_heads)
//
// Order: the path is cut into chunks of kAttentionChunk entries counted from position 0. Within a chunk: dots
// in 16 virtual lanes over head_dim, then the maximum m, p_i = exp(score_i - m) (own polynomial), the sum of
// p_i in 16 virtual lanes over i, the sums of p_i * v_i in path order. Chunks are combined in path order,
// each side rescaled by the exp of its maximum less the common one. The result depends on the path's contents
// alone, not on slots, blocks, other rows, threads or instruction set. A NaN score gives NaN.
//
// Parallel over (up to 8 neighbouring rows of a sequence, K/V head). Aliasing: out overlaps nothing.
// Roofline: 2 * path * kv_heads * head_dim elements of the cache per group of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/tensor/dtype.h"
#include "kernels/common/thread_pool.h"

namespace paceline::kernels {

inline constexpr size_t kAttentionChunk = 64;

// The pool of one layer. K and V each: [num_blocks, block_size, num_kv_heads, head_dim], row-major.
struct KvView {
  DType dtype = DType::kF16;  // F16 or F32
  std::byte* k = nullptr;
  std::byte* v = nullptr;
  size_t block_size = 0;
  size_t num_kv_heads = 0;
  size_t head_dim = 0;
};

struct AttentionRow {
  const uint32_t* blocks = nullptr;  // the sequence's block table: logical block -> block of the pool
  uint32_t prefix_len = 0;
  std::span<const uint32_t> tail_slots;  // prefix_len + tail_slots.size() >= 1
};

// Where one row's K and V go.
struct KvWriteRow {
  const uint32_t* blocks = nullptr;
  uint32_t slot = 0;
};

// Rounds rows of k and v (nearest even) into the pool. k, v: [rows.size(), num_kv_heads, head_dim] f32, row r
// at k + r * k_stride, v + r * v_stride.
void WriteKv(const float* k, size_t k_stride, const float* v, size_t v_stride,
             std::span<const KvWriteRow> rows, const KvView& kv);

// Reusable buffers of Attention, a slice per task; grows when a call needs more than was reserved.
class AttentionScratch {
 public:
  void Reserve(size_t num_heads, size_t num_kv_heads, size_t head_dim, int num_threads);

 private:
  friend struct AttentionScratchAccess;
  std::vector<float> buffer_;
};

struct AttentionArgs {
  const float* q = nullptr;  // [rows.size(), num_heads, head_dim] f32, row r at q + r * q_stride
  size_t q_stride = 0;
  size_t num_heads = 0;  // a multiple of kv.num_kv_heads
  std::span<const AttentionRow> rows;
  KvView kv;
  float scale = 0;       // usually head_dim^-0.5
  float* out = nullptr;  // [rows.size(), num_heads, head_dim] f32, row r at out + r * out_stride
  size_t out_stride = 0;
};

void Attention(const AttentionArgs& args, AttentionScratch& scratch, ThreadPool& pool);

}  // namespace paceline::kernels
