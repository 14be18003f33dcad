// `--pipeline-layer-partition auto`: stages that take about the same time.
//
// Decode is bound by the weights that a step streams: a layer's matrices once, the head's once on the last
// stage; the embedding is a few rows and costs nothing. So the split minimises the largest sum of bytes over
// the stages.
//
//   SmolLM2 (30 layers of 2.1 MiB, head of 28.7 MiB), 2 stages -> 22, 8
#pragma once

#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/model/partition.h"

namespace paceline {

// InvalidArgument as PartitionLayers when there are more stages than layers.
StatusOr<std::vector<StageLayers>> BalanceLayers(const ModelConfig& config,
                                                 std::span<const TensorEntry> entries, uint32_t num_stages);

}  // namespace paceline
