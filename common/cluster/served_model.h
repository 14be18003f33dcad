// ServedModel: the model of the command line, opened and cut into stages, as every process of a cluster sees
// it.
//
//   ASSIGN_OR_RETURN(ServedModel served, OpenServedModel(config));
//   served.stages[1]            // layers of stage 1
//   MakeFingerprint(config, served)
//
// Errors: what the configuration and the file do not agree on (context, number of stages, architecture), by
// name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/serve_config.h"
#include "common/model/memory_plan.h"
#include "common/model/partition.h"
#include "common/model/weight_source.h"
#include "common/protocol/membership.h"

namespace paceline {

struct ServedModel {
  std::unique_ptr<WeightSource> source;
  std::vector<StageLayers> stages;
  uint32_t max_model_len = 0;  // tokens of a sequence, prompt included
};

StatusOr<ServedModel> OpenServedModel(const ServeConfig& config);

// What the handshake compares. `numerics_class` is empty from a process that computes nothing.
Fingerprint MakeFingerprint(const ServeConfig& config, const ServedModel& served, std::string numerics_class);

// What sizes the KV pool of that stage: the same for `paceline plan` and for the stage worker.
KvPlanInput KvInputOfStage(const ServeConfig& config, const ServedModel& served, uint32_t stage);

// Compute threads of one worker: --threads, else this host's cores over the workers that compute on it.
uint32_t ThreadsPerWorker(const ServeConfig& config);

}  // namespace paceline
