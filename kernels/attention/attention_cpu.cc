#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/chunk.h"
#include "kernels/common/numerics.h"

namespace paceline::kernels {
namespace {

// Neighbouring rows of one sequence that share the widened K and V of a chunk.
constexpr size_t kRowGroup = 8;

size_t RoundUpToLanes(size_t n) { return (n + kReduceLanes - 1) / kReduceLanes * kReduceLanes; }

size_t ElementBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// Places of the pool's rows of one K/V head.
struct HeadPlaces {
  const KvView& kv;
  size_t kv_head;

  size_t ByteOffset(const uint32_t* blocks, size_t slot) const {
    const size_t place = size_t{blocks[slot / kv.block_size]} * kv.block_size + slot % kv.block_size;
    return (place * kv.num_kv_heads + kv_head) * kv.head_dim * ElementBytes(kv.dtype);
  }
};

// Entries at slot = position, counted from position 0: they are the same for every row of the sequence.
size_t CommonLength(const AttentionRow& row) {
  size_t length = row.prefix_len;
  for (uint32_t slot : row.tail_slots) {
    if (slot != length) break;
    ++length;
  }
  return length;
}

size_t PathLength(const AttentionRow& row) { return row.prefix_len + row.tail_slots.size(); }

struct GroupShape {
  size_t heads;  // query heads of a K/V head
  size_t padded_dim;

  size_t StateFloats() const { return heads * (2 * padded_dim + 2); }
  size_t ChunkFloats() const { return 2 * kAttentionChunk * padded_dim; }
  // A shared and an own chunk, values of a block of heads, and q and state of each row of a group.
  size_t ScratchFloats() const {
    return 2 * ChunkFloats() + kAttentionHeadBlock * padded_dim + kRowGroup * StateFloats();
  }
};

GroupShape ShapeOf(size_t num_heads, size_t num_kv_heads, size_t head_dim) {
  return {num_heads / num_kv_heads, RoundUpToLanes(head_dim)};
}

// All work of up to kRowGroup rows that share a block table, for one K/V head.
class RowGroup {
 public:
  RowGroup(const AttentionArgs& args, size_t first_row, size_t num_rows, size_t kv_head, float* scratch)
      : args_(args),
        shape_(ShapeOf(args.num_heads, args.kv.num_kv_heads, args.kv.head_dim)),
        places_{args.kv, kv_head},
        first_row_(first_row),
        num_rows_(num_rows) {
    shared_ = TakeChunk(scratch);
    own_ = TakeChunk(scratch);
    chunk_values_ = Take(scratch, kAttentionHeadBlock * shape_.padded_dim);
    for (size_t r = 0; r < num_rows; ++r) {
      q_[r] = Take(scratch, shape_.heads * shape_.padded_dim);
      state_[r].values = Take(scratch, shape_.heads * shape_.padded_dim);
      state_[r].maximum = Take(scratch, shape_.heads);
      state_[r].sum = Take(scratch, shape_.heads);
      CopyQuery(r);
    }
  }

  void Run() {
    size_t longest = 0;
    for (size_t r = 0; r < num_rows_; ++r) longest = std::max(longest, PathLength(Row(r)));
    for (size_t begin = 0; begin < longest; begin += kAttentionChunk) RunChunk(begin);
    for (size_t r = 0; r < num_rows_; ++r) StoreRow(r);
  }

 private:
  const AttentionRow& Row(size_t r) const { return args_.rows[first_row_ + r]; }
  size_t FirstHead() const { return places_.kv_head * shape_.heads; }

  static float* Take(float*& scratch, size_t count) {
    float* taken = scratch;
    scratch += count;
    return taken;
  }
  AttentionChunkBuffers TakeChunk(float*& scratch) const {
    float* k = Take(scratch, kAttentionChunk * shape_.padded_dim);
    return {k, Take(scratch, kAttentionChunk * shape_.padded_dim)};
  }

  void CopyQuery(size_t r) {
    const size_t head_dim = args_.kv.head_dim;
    const float* q = args_.q + (first_row_ + r) * args_.q_stride + FirstHead() * head_dim;
    for (size_t h = 0; h < shape_.heads; ++h) {
      float* to = q_[r] + h * shape_.padded_dim;
      std::copy(q + h * head_dim, q + (h + 1) * head_dim, to);
      std::fill(to + head_dim, to + shape_.padded_dim, 0.0f);
    }
  }

  // Widens path entries [begin, end) of a row into the buffers, from index `at` on.
  void Widen(const AttentionRow& row, size_t begin, size_t end, const AttentionChunkBuffers& to,
             size_t at) const {
    const KvView& kv = args_.kv;
    size_t offsets[kAttentionChunk];
    for (size_t i = begin; i < end; ++i) {
      const size_t slot = i < row.prefix_len ? i : row.tail_slots[i - row.prefix_len];
      offsets[i - begin] = places_.ByteOffset(row.blocks, slot);
    }
    WidenArgs args{kv.dtype, kv.k, offsets, end - begin, kv.head_dim, shape_.padded_dim};
    WidenVectors(args, to.k + at * shape_.padded_dim);
    args.base = kv.v;
    WidenVectors(args, to.v + at * shape_.padded_dim);
  }

  // Entries [begin, begin + 64) of every row's path that reaches there.
  void RunChunk(size_t begin) {
    size_t shared_entries = 0;
    for (size_t r = 0; r < num_rows_; ++r) {
      const AttentionRow& row = Row(r);
      const size_t path = PathLength(row);
      if (path <= begin) continue;
      const size_t end = std::min(begin + kAttentionChunk, path);
      if (end <= CommonLength(row)) {
        if (begin + shared_entries < end) {
          Widen(row, begin + shared_entries, end, shared_, shared_entries);
          shared_entries = end - begin;
        }
        Accumulate(r, shared_, end - begin);
      } else {
        Widen(row, begin, end, own_, 0);
        Accumulate(r, own_, end - begin);
      }
    }
  }

  void Accumulate(size_t r, const AttentionChunkBuffers& buffers, size_t num_entries) {
    AccumulateChunk({.q = q_[r],
                     .num_heads = shape_.heads,
                     .padded_dim = shape_.padded_dim,
                     .kv = buffers,
                     .num_entries = num_entries,
                     .scale = args_.scale},
                    chunk_values_, state_[r]);
  }

  void StoreRow(size_t r) const {
    const size_t head_dim = args_.kv.head_dim;
    float* out = args_.out + (first_row_ + r) * args_.out_stride + FirstHead() * head_dim;
    for (size_t h = 0; h < shape_.heads; ++h) {
      const float* values = state_[r].values + h * shape_.padded_dim;
      for (size_t d = 0; d < head_dim; ++d) out[h * head_dim + d] = values[d] / state_[r].sum[h];
    }
  }

  const AttentionArgs& args_;
  const GroupShape shape_;
  const HeadPlaces places_;
  const size_t first_row_;
  const size_t num_rows_;
  AttentionChunkBuffers shared_;
  AttentionChunkBuffers own_;
  float* chunk_values_ = nullptr;
  float* q_[kRowGroup] = {};
  SoftmaxState state_[kRowGroup];
};

// Row after the group that begins at `first`.
size_t GroupEnd(std::span<const AttentionRow> rows, size_t first) {
  size_t end = first + 1;
  while (end < rows.size() && end - first < kRowGroup && rows[end].blocks == rows[first].blocks) ++end;
  return end;
}

void CheckShapes(const AttentionArgs& args) {
  const KvView& kv = args.kv;
  CHECK(kv.dtype == DType::kF16 || kv.dtype == DType::kF32) << "K/V cache of type " << Name(kv.dtype);
  CHECK_GT(kv.num_kv_heads, size_t{0});
  CHECK_EQ(args.num_heads % kv.num_kv_heads, size_t{0});
  CHECK_GE(args.q_stride, args.num_heads * kv.head_dim);
  CHECK_GE(args.out_stride, args.num_heads * kv.head_dim);
  for (const AttentionRow& row : args.rows)
    CHECK_GE(PathLength(row), size_t{1}) << "a row sees at least itself";
}

void WriteVector(DType dtype, const float* from, size_t count, std::byte* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const uint16_t bits = FloatToHalf(from[i]);
    std::memcpy(to + i * sizeof(bits), &bits, sizeof(bits));
  }
}

}  // namespace

struct AttentionScratchAccess {
  static float* Buffer(AttentionScratch& scratch, size_t floats) {
    if (scratch.buffer_.size() < floats) scratch.buffer_.resize(floats);
    return scratch.buffer_.data();
  }
};

void AttentionScratch::Reserve(size_t num_heads, size_t num_kv_heads, size_t head_dim, int num_threads) {
  const size_t floats = ShapeOf(num_heads, num_kv_heads, head_dim).ScratchFloats();
  AttentionScratchAccess::Buffer(*this, floats * TaskSplit::MaxTasks(num_threads));
}

void WriteKv(const float* k, size_t k_stride, const float* v, size_t v_stride,
             std::span<const KvWriteRow> rows, const KvView& kv) {
  const size_t width = kv.num_kv_heads * kv.head_dim;
  const HeadPlaces places{kv, 0};
  for (size_t r = 0; r < rows.size(); ++r) {
    const size_t to = places.ByteOffset(rows[r].blocks, rows[r].slot);
    WriteVector(kv.dtype, k + r * k_stride, width, kv.k + to);
    WriteVector(kv.dtype, v + r * v_stride, width, kv.v + to);
  }
}

void Attention(const AttentionArgs& args, AttentionScratch& scratch, ThreadPool& pool) {
  if (args.rows.empty() || args.num_heads == 0) return;
  CheckShapes(args);
  const size_t kv_heads = args.kv.num_kv_heads;
  const size_t scratch_floats = ShapeOf(args.num_heads, kv_heads, args.kv.head_dim).ScratchFloats();
  // Items are (K/V head, row), rows running fastest, so that a task's range falls into groups of neighbouring
  // rows.
  const TaskSplit split(args.rows.size() * kv_heads, 1, pool.num_threads());
  float* buffers = AttentionScratchAccess::Buffer(scratch, split.num_tasks() * scratch_floats);
  pool.ParallelFor(split.num_tasks(), [&](size_t task) {
    float* buffer = buffers + task * scratch_floats;
    size_t item = split.begin(task);
    while (item < split.end(task)) {
      const size_t kv_head = item / args.rows.size();
      const size_t row = item % args.rows.size();
      const size_t end = std::min(GroupEnd(args.rows, row), row + (split.end(task) - item));
      RowGroup(args, row, end - row, kv_head, buffer).Run();
      item += end - row;
    }
  });
}

}  // namespace paceline::kernels
