// LocalCluster: the whole product in one thread: real cores, real kernels, real proposers; only the wires are
// a queue.
//
// What a coordinator, its stages and a drafter do with one another, without processes: messages are delivered
// in order, one event at a time, on a clock that jumps to the next timer when nothing is left to do. For
// token identity over big products of options; faults are the simulator's business (tests/sim).
//
//   LocalCluster cluster(*source, {.num_stages = 3, .drafter = LocalDrafter::kNgram, .num_speculative_tokens
//   = 4}); const LocalAnswer answer = cluster.Generate({{.prompt = ids, .sampling = params}})[0];
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/config/speculative_config.h"
#include "common/model/weight_source.h"
#include "common/protocol/sampling_params.h"
#include "common/protocol/speculation.h"
#include "coordinator/request/generation.h"

namespace paceline::testing {

enum class LocalDrafter { kNone, kNgram, kModel };

struct LocalClusterOptions {
  uint32_t num_stages = 1;
  LocalDrafter drafter = LocalDrafter::kNone;
  const WeightSource* draft_source = nullptr;  // kModel
  DraftSampling draft_sampling = DraftSampling::kGreedy;
  uint32_t num_speculative_tokens = 4;
  uint32_t frames_in_flight_max = 1;  // 1 = no run-ahead
  uint32_t num_slots = 0;             // 0 = num_stages
  uint32_t max_num_batched_tokens = 256;
  uint32_t max_model_len = 256;
  uint32_t kv_blocks = 256;
  uint32_t kv_block_size = 8;
  uint32_t threads = 1;
};

struct LocalRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
};

struct LocalAnswer {
  std::vector<TokenId> ids;
  std::vector<TokenLogprobs> logprobs;
  FinishReason finish = FinishReason::kNone;
  std::string error;
  uint32_t num_drafted = 0;
  uint32_t num_accepted = 0;
  uint32_t num_steps = 0;
};

class LocalCluster {
 public:
  // `source` outlives the cluster. Fails the process (CHECK) when the cluster does not come up.
  LocalCluster(const WeightSource& source, const LocalClusterOptions& options);
  ~LocalCluster();

  // Submits all at once and runs until all have ended, in order of the requests. Afterwards the cluster is
  // idle and its accounting whole (CHECK).
  std::vector<LocalAnswer> Generate(const std::vector<LocalRequest>& requests);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::testing
