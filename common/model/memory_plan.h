// How much memory a stage takes, before any weight is read: what `paceline plan` shows and the stage worker
// sizes by.
//
//   const KvPlan plan = *PlanKvPool({.config = &config, .layers = stage, .host_bytes = HostMemoryBytes(),
//   ...}); plan.blocks * plan.block_bytes   // bytes of the pool
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/model/model_config.h"
#include "common/model/partition.h"

namespace paceline {

// Memory of this host that a process may use: the machine's, or the control group's limit if that is less.
uint64_t HostMemoryBytes();

struct KvPlanInput {
  const ModelConfig* config = nullptr;
  StageLayers layers;
  uint32_t block_size = 16;  // tokens
  DType kv_dtype = DType::kF16;
  uint64_t weight_bytes = 0;  // of this stage
  uint64_t host_bytes = 0;
  double memory_share = 0.92;  // of the host, over all ranks on it
  uint32_t ranks_on_host = 1;
  uint64_t pool_bytes_wanted = 0;  // --kv-cache-memory-bytes; 0 = what is left, at most 2 GiB
  uint32_t context_len = 0;        // tokens that one sequence may have
  uint32_t max_num_seqs = 1;
};

struct KvPlan {
  uint64_t block_bytes = 0;  // K and V of one block over the stage's layers
  uint32_t blocks = 0;       // never more than max_num_seqs whole contexts
  uint64_t pool_bytes() const { return block_bytes * blocks; }
};

// ResourceExhausted when not even one sequence of `context_len` tokens fits: states needed, available, and
// the flag value that would fit.
StatusOr<KvPlan> PlanKvPool(const KvPlanInput& input);

}  // namespace paceline
