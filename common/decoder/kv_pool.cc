#include "common/decoder/kv_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/checked_size.h"

namespace paceline {
namespace {

constexpr uint64_t kPlaneAlignment = 64;

Status CheckShape(const KvPoolShape& shape) {
  if (shape.dtype != DType::kF16 && shape.dtype != DType::kF32) {
    return InvalidArgumentError("kv: want a cache of F16 or F32, found {}; see --kv-cache-dtype",
                                Name(shape.dtype));
  }
  if (shape.num_blocks == 0 || shape.block_size == 0 || shape.num_kv_heads == 0 || shape.head_dim == 0) {
    return InvalidArgumentError(
        "kv: want at least one block, token, head and element, found {} blocks of {} tokens, {} heads of {}",
        shape.num_blocks, shape.block_size, shape.num_kv_heads, shape.head_dim);
  }
  return OkStatus();
}

// K or V of one block of one layer.
StatusOr<uint64_t> HalfBlockBytes(const KvPoolShape& shape) {
  ASSIGN_OR_RETURN(uint64_t bytes, CheckedMul(shape.block_size, shape.num_kv_heads));
  ASSIGN_OR_RETURN(bytes, CheckedMul(bytes, shape.head_dim));
  return CheckedMul(bytes, Info(shape.dtype).block_bytes);
}

}  // namespace

StatusOr<uint64_t> KvBlockBytes(const KvPoolShape& shape) {
  ASSIGN_OR_RETURN(uint64_t bytes, HalfBlockBytes(shape));
  return CheckedMul(bytes, 2ull * shape.num_layers);
}

StatusOr<KvPool> KvPool::Create(const KvPoolShape& shape) {
  RETURN_IF_ERROR(CheckShape(shape));
  ASSIGN_OR_RETURN(uint64_t plane_bytes, HalfBlockBytes(shape));
  ASSIGN_OR_RETURN(plane_bytes, CheckedMul(plane_bytes, shape.num_blocks));
  ASSIGN_OR_RETURN(plane_bytes, CheckedAdd(plane_bytes, kPlaneAlignment - 1));
  plane_bytes = plane_bytes / kPlaneAlignment * kPlaneAlignment;
  ASSIGN_OR_RETURN(uint64_t bytes, CheckedMul(plane_bytes, 2ull * shape.num_layers));
  bytes = std::max(bytes, kPlaneAlignment);  // a stage without layers maps something all the same

  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return ResourceExhaustedError(
        "kv: want {} bytes for {} blocks of {} tokens, mmap said {}; lower the number of blocks", bytes,
        shape.num_blocks, shape.block_size, std::strerror(errno));
  }
  // Advice only: without huge pages the pool works, with more misses of the address cache.
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return KvPool(shape, static_cast<std::byte*>(memory), bytes, plane_bytes);
}

KvPool::KvPool(KvPool&& other) noexcept
    : shape_(other.shape_),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      plane_bytes_(other.plane_bytes_) {}

KvPool& KvPool::operator=(KvPool&& other) noexcept {
  std::swap(shape_, other.shape_);
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(plane_bytes_, other.plane_bytes_);
  return *this;
}

KvPool::~KvPool() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

kernels::KvView KvPool::Layer(uint32_t layer) const {
  CHECK_LT(layer, shape_.num_layers);
  std::byte* const k = memory_ + 2 * plane_bytes_ * layer;
  return {.dtype = shape_.dtype,
          .k = k,
          .v = k + plane_bytes_,
          .block_size = shape_.block_size,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim};
}

uint64_t KvPool::row_bytes() const {
  return uint64_t{shape_.num_kv_heads} * shape_.head_dim * Info(shape_.dtype).block_bytes;
}

StatusOr<uint64_t> KvPool::RowOffset(std::span<const BlockId> blocks, Slot slot) const {
  const size_t logical = slot / shape_.block_size;
  if (logical >= blocks.size() || blocks[logical].value() >= shape_.num_blocks) {
    return InvalidArgumentError("kv: want a slot in one of {} blocks of a pool of {}, found slot {}",
                                blocks.size(), shape_.num_blocks, slot);
  }
  return (uint64_t{blocks[logical].value()} * shape_.block_size + slot % shape_.block_size) * row_bytes();
}

Status KvPool::MoveRows(std::span<const BlockId> blocks, std::span<const KvMove> moves) {
  for (const KvMove& move : moves) {
    RETURN_IF_ERROR(RowOffset(blocks, move.from).status());
    RETURN_IF_ERROR(RowOffset(blocks, move.to).status());
  }
  for (const KvMove& move : moves) {
    const uint64_t from = *RowOffset(blocks, move.from), to = *RowOffset(blocks, move.to);
    for (uint32_t plane = 0; plane < 2 * shape_.num_layers; ++plane) {
      std::byte* const base = memory_ + plane_bytes_ * plane;
      std::memmove(base + to, base + from, row_bytes());
    }
  }
  return OkStatus();
}

}  // namespace paceline
