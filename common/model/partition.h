// Layers to pipeline stages, and what each stage reads and holds.
//
//   ASSIGN_OR_RETURN(auto stages, PartitionLayers("even", 30, 4));   // 7, 8, 8, 7 layers
//   for (const StageLayers& stage : stages)
//     bytes = StageWeightBytes(stage, source.config(), source.Entries());
//
// Pure; every layer belongs to exactly one stage, in order (asserted).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model/model_config.h"
#include "common/model/weight_source.h"

namespace paceline {

struct StageLayers {
  uint32_t first = 0;  // layer index
  uint32_t end = 0;    // one past the last layer
  bool has_embedding = false;
  bool has_head = false;  // final norm and output matrix

  uint32_t count() const { return end - first; }
  bool operator==(const StageLayers&) const = default;
};

// `spec` is "even" or one count per stage, "10,12,10". Even counts differ by at most one; what is left over
// goes to the middle stages first (the stage before the last, then backwards), since the last one also
// carries the head. InvalidArgument names both numbers that do not fit and the flag.
StatusOr<std::vector<StageLayers>> PartitionLayers(std::string_view spec, uint32_t num_layers,
                                                   uint32_t num_stages);

// Whether the stage reads the tensor; a tied head makes the embedding one of the last stage's tensors too.
bool StageReads(const StageLayers& stage, const ModelConfig& config, std::string_view canonical_name);

// Bytes of the tensors that the stage reads, as they lie in the file.
uint64_t StageWeightBytes(const StageLayers& stage, const ModelConfig& config,
                          std::span<const TensorEntry> entries);

// "7,8,8,7", the form that PartitionLayers takes.
std::string DescribePartition(std::span<const StageLayers> stages);

}  // namespace paceline
