// `paceline plan MODEL`: what each stage will hold, before any weight is read.
//
//   stage  layers   weights     KV pool    tokens
//       0  0..18    40.1 MiB    2.0 GiB    294912
//       1  19..29   41.0 MiB    2.0 GiB    509440
//
// Exit 78 when it cannot fit: needed, available, and the flag value that would fit.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/serve_config.h"

namespace paceline {

struct StagePlan {
  uint32_t stage = 0;
  uint32_t first_layer = 0;
  uint32_t end_layer = 0;
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  uint32_t kv_blocks = 0;
};

struct ClusterPlan {
  std::string architecture;
  uint32_t num_layers = 0;
  uint32_t max_model_len = 0;
  uint64_t kv_tokens = 0;         // of the smallest pool
  double contexts_at_once = 0;    // sequences of max_model_len that fit
  double step_share_largest = 0;  // share of a step's bytes on the slowest stage; 1 / stages is ideal
  uint64_t draft_bytes = 0;       // weights of the draft model, 0 = none
  std::vector<StagePlan> stages;
};

StatusOr<ClusterPlan> MakePlan(const ServeConfig& config);

// The refusals of MakePlan alone: what `serve` asks before it starts anything.
Status CheckPlan(const ServeConfig& config);

int PlanCommand(const std::vector<std::string>& args);

}  // namespace paceline
