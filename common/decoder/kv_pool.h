// KvPool: the K and V of one stage's layers, in blocks that block tables name.
//
// Owned by the worker's executor; made once at start with all the memory it will ever use. One thread writes
// (the executor, through kernels::WriteKv on a view). Who owns which block is the coordinator's business: the
// pool is bytes. A block id means the same place in every layer, and the same id at every stage.
//
//   [layer][K | V][num_blocks, block_size, num_kv_heads, head_dim]  F16 or F32, row-major, 64-byte aligned
//
//   ASSIGN_OR_RETURN(KvPool pool, KvPool::Create({.num_layers = 15, .num_blocks = 512, ...}));
//   kernels::WriteKv(..., pool.Layer(0));
//
// Failure: no memory is ResourceExhausted with the bytes asked for. Fresh memory is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/protocol/step_plan.h"
#include "common/tensor/dtype.h"
#include "kernels/attention/attention.h"

namespace paceline {

struct KvPoolShape {
  uint32_t num_layers = 0;  // of this stage; 0 is a stage without layers
  uint32_t num_blocks = 0;
  uint32_t block_size = 16;  // tokens
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  DType dtype = DType::kF16;  // F16 or F32

  bool operator==(const KvPoolShape&) const = default;
};

// Bytes of one block over all layers of the shape, K and V: what a plan multiplies.
StatusOr<uint64_t> KvBlockBytes(const KvPoolShape& shape);

class KvPool {
 public:
  static StatusOr<KvPool> Create(const KvPoolShape& shape);
  KvPool(KvPool&& other) noexcept;
  KvPool& operator=(KvPool&& other) noexcept;
  ~KvPool();

  // `layer` counts from the stage's first.
  kernels::KvView Layer(uint32_t layer) const;
  // Copies K and V of slot `from` to slot `to` in every layer, in order: a tree's winning branch moves to
  // slot = position (P2). InvalidArgument when a slot or block is outside table or pool; then nothing is
  // moved.
  Status MoveRows(std::span<const BlockId> blocks, std::span<const KvMove> moves);

  const KvPoolShape& shape() const { return shape_; }
  uint64_t bytes() const { return bytes_; }

 private:
  KvPool(const KvPoolShape& shape, std::byte* memory, uint64_t bytes, uint64_t plane_bytes)
      : shape_(shape), memory_(memory), bytes_(bytes), plane_bytes_(plane_bytes) {}
  // Where the slot's row lies within a plane, in bytes.
  StatusOr<uint64_t> RowOffset(std::span<const BlockId> blocks, Slot slot) const;
  uint64_t row_bytes() const;

  KvPoolShape shape_;
  std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;        // mapped
  uint64_t plane_bytes_ = 0;  // K or V of one layer, a multiple of 64
};

}  // namespace paceline
