#include "common/model/memory_plan.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "common/base/checked_size.h"

namespace paceline {
namespace {

constexpr uint64_t kPoolBytesDefault = uint64_t{2} << 30;

// Bytes of one block: K and V, each [block_size, num_kv_heads, head_dim], for every layer of the stage.
StatusOr<uint64_t> BlockBytes(const KvPlanInput& input) {
  const ModelConfig& config = *input.config;
  ASSIGN_OR_RETURN(const uint64_t row,
                   RowBytes(input.kv_dtype, uint64_t{config.num_kv_heads} * config.head_dim));
  ASSIGN_OR_RETURN(const uint64_t layer, CheckedMul(2 * row, input.block_size));
  return CheckedMul(layer, std::max<uint32_t>(1, input.layers.count()));
}

uint64_t PoolBytes(const KvPlanInput& input) {
  if (input.pool_bytes_wanted > 0) return input.pool_bytes_wanted;
  const double share =
      static_cast<double>(input.host_bytes) * input.memory_share / std::max(1u, input.ranks_on_host);
  const uint64_t usable = static_cast<uint64_t>(share);
  return std::min(kPoolBytesDefault, usable > input.weight_bytes ? usable - input.weight_bytes : 0);
}

}  // namespace

uint64_t HostMemoryBytes() {
  uint64_t bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream in("/sys/fs/cgroup/memory.max");
  std::string text;
  if (in >> text && text != "max")
    bytes = std::min<uint64_t>(bytes, std::strtoull(text.c_str(), nullptr, 10));
  return bytes;
}

StatusOr<KvPlan> PlanKvPool(const KvPlanInput& input) {
  KvPlan plan;
  ASSIGN_OR_RETURN(plan.block_bytes, BlockBytes(input));
  const uint64_t pool_bytes = PoolBytes(input);
  const uint64_t blocks_per_sequence =
      (uint64_t{input.context_len} + input.block_size - 1) / input.block_size;
  const uint64_t blocks = pool_bytes / plan.block_bytes;
  if (blocks < blocks_per_sequence) {
    return ResourceExhaustedError(
        "the KV cache has room for {} tokens and one sequence may need {}: needed {} bytes, available {}; "
        "--max-model-len {} or --kv-cache-memory-bytes {} would fit",
        blocks * input.block_size, input.context_len, blocks_per_sequence * plan.block_bytes, pool_bytes,
        blocks * input.block_size, blocks_per_sequence * plan.block_bytes);
  }
  // One block more than every sequence can own at once would never be used.
  const uint64_t useful = blocks_per_sequence * std::max(1u, input.max_num_seqs);
  plan.blocks = static_cast<uint32_t>(std::min({blocks, useful, uint64_t{1} << 30}));
  return plan;
}

}  // namespace paceline
