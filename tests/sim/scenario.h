// Scenario: everything a seed decides before the run starts. Printed when a seed fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/protocol/protocol_break.h"
#include "common/protocol/sampling_params.h"
#include "tests/sim/toy_model.h"

namespace paceline::sim {

struct SimRequest {
  Instant at;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  StopPair pair;
  Instant cancel_at = Instant::max();
  std::vector<Instant> preempt_at;
};

struct Scenario {
  uint64_t seed = 0;
  ProtocolBreak broken = ProtocolBreak::kNone;

  uint32_t num_stages = 1;
  uint32_t num_slots = 1;
  uint32_t launch_window = 1;
  uint32_t draft_len = 0;
  uint32_t frames_in_flight_max = 1;
  uint32_t max_num_seqs = 1;
  uint32_t max_num_batched_tokens = 16;
  uint32_t max_model_len = 64;
  uint32_t kv_blocks = 64;
  uint32_t kv_block_size = 4;
  ToyVocabulary vocabulary;

  bool has_drafter = false;
  double agreement = 0.5;
  bool waits_for_proposals = false;  // LateProposalPolicy::unbounded

  Duration link_min = 50us;
  Duration link_max = 500us;
  Duration compute_min = 200us;
  Duration compute_max = 2ms;
  Duration draft_min = 100us;
  Duration draft_max = 2ms;
  double publish_loss = 0;    // per subscriber
  double publish_late = 0;    // ... comes much later instead, out of order
  double publish_double = 0;  // ... comes twice
  double control_loss = 0;    // of messages that the protocol asks for again
  double urgent_loss = 0;

  uint64_t events_max = 1'500'000;  // beyond: something spins

  std::vector<Instant> drafter_deaths;
  std::vector<Instant> stage_deaths;
  std::vector<SimRequest> requests;

  std::string ToString() const;
};

Scenario MakeScenario(uint64_t seed);

}  // namespace paceline::sim
