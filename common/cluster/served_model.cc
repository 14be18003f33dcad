#include "common/cluster/served_model.h"

#include <sched.h>

#include <algorithm>

#include "common/base/version.h"
#include "common/model/balance.h"

namespace paceline {
namespace {

// Cores that this process may run on (a container's set counts).
uint32_t UsableCores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace

StatusOr<ServedModel> OpenServedModel(const ServeConfig& config) {
  ServedModel served;
  ASSIGN_OR_RETURN(served.source, OpenModel(config.model));
  const ModelConfig& model = served.source->config();
  if (config.layer_partition == "auto") {
    ASSIGN_OR_RETURN(served.stages, BalanceLayers(model, served.source->Entries(), config.pipeline_size));
  } else {
    ASSIGN_OR_RETURN(served.stages,
                     PartitionLayers(config.layer_partition, model.num_layers, config.pipeline_size));
  }
  if (config.max_model_len > model.context_len) {
    return InvalidArgumentError("--max-model-len {} is beyond what the model was made for: at most {} tokens",
                                config.max_model_len, model.context_len);
  }
  served.max_model_len =
      config.max_model_len > 0 ? static_cast<uint32_t>(config.max_model_len) : model.context_len;
  return served;
}

Fingerprint MakeFingerprint(const ServeConfig& config, const ServedModel& served,
                            std::string numerics_class) {
  Fingerprint fingerprint;
  fingerprint.build_id = kBuildId;
  fingerprint.model_digest = served.source->Digest();
  fingerprint.dtype = fmt::format("f32/{}", Name(config.kv_dtype));
  fingerprint.numerics_class = std::move(numerics_class);
  fingerprint.pipeline_size = config.pipeline_size;
  fingerprint.num_layers = served.source->config().num_layers;
  for (const StageLayers& stage : served.stages) fingerprint.layers_per_stage.push_back(stage.count());
  return fingerprint;
}

KvPlanInput KvInputOfStage(const ServeConfig& config, const ServedModel& served, uint32_t stage) {
  const ModelConfig& model = served.source->config();
  KvPlanInput input;
  input.config = &model;
  input.layers = served.stages[stage];
  input.block_size = config.block_size;
  input.kv_dtype = config.kv_dtype;
  input.weight_bytes = StageWeightBytes(input.layers, model, served.source->Entries());
  input.host_bytes = HostMemoryBytes();
  input.memory_share = config.memory_share;
  input.ranks_on_host = std::max(1u, config.pipeline_size / config.num_nodes);
  input.pool_bytes_wanted = config.kv_cache_bytes;
  input.context_len = served.max_model_len;
  input.max_num_seqs = config.max_num_seqs;
  return input;
}

uint32_t ThreadsPerWorker(const ServeConfig& config) {
  if (config.threads > 0) return config.threads;
  const uint32_t stages_here = std::max(1u, config.pipeline_size / std::max(1u, config.num_nodes));
  return std::max(1u, UsableCores() / stages_here);
}

}  // namespace paceline
