#include "tests/sim/scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/sim/sim_random.h"

namespace paceline::sim {
namespace {

constexpr Instant kStart{};

SimRequest MakeRequest(const Scenario& scenario, SimRandom& random, bool faults) {
  SimRequest request;
  request.at = kStart + random.Micros(0, 60'000);
  const uint32_t prompt_max = scenario.max_model_len - 1;
  const uint64_t prompt_len = random.Between(1, random.Chance(0.3) ? prompt_max : std::min(prompt_max, 12u));
  for (uint64_t i = 0; i < prompt_len; ++i) {
    request.prompt.push_back(static_cast<TokenId>(random.Next() % scenario.vocabulary.size));
  }
  SamplingParams& sampling = request.sampling;
  sampling.seed = random.Next();
  sampling.choice = static_cast<uint32_t>(random.Between(0, 3));
  sampling.max_tokens = static_cast<uint32_t>(random.Between(1, 40));
  sampling.min_tokens =
      random.Chance(0.3) ? static_cast<uint32_t>(random.Between(0, sampling.max_tokens)) : 0;
  if (random.Chance(0.8)) {
    sampling.eos_token_ids = {0};
    sampling.stop_token_ids = {0};
  }
  if (random.Chance(0.3)) {
    const auto stop = static_cast<TokenId>(random.Next() % scenario.vocabulary.size);
    if (stop != 0) sampling.stop_token_ids.push_back(stop);
  }
  if (random.Chance(0.4)) {
    request.pair = {true, static_cast<TokenId>(random.Next() % scenario.vocabulary.size),
                    static_cast<TokenId>(random.Next() % scenario.vocabulary.size)};
  }
  if (!faults) return request;
  if (random.Chance(0.15)) request.cancel_at = request.at + random.Micros(0, 60'000);
  while (random.Chance(0.2)) request.preempt_at.push_back(request.at + random.Micros(0, 80'000));
  return request;
}

void ChooseShape(Scenario& scenario, SimRandom& random) {
  scenario.num_stages = static_cast<uint32_t>(random.Between(1, 4));
  scenario.num_slots = random.Chance(0.4) ? scenario.num_stages : static_cast<uint32_t>(random.Between(1, 6));
  scenario.launch_window = static_cast<uint32_t>(random.Between(1, 4));
  scenario.draft_len = static_cast<uint32_t>(random.Between(0, 8));
  scenario.frames_in_flight_max = 1 + static_cast<uint32_t>(random.Between(0, 4));
  scenario.max_num_seqs = static_cast<uint32_t>(random.Between(1, 16));
  scenario.max_num_batched_tokens = static_cast<uint32_t>(random.Pick({1, 3, 8, 16, 32, 128}));
  scenario.max_model_len = static_cast<uint32_t>(random.Between(16, 80));
  scenario.kv_block_size = static_cast<uint32_t>(random.Between(1, 8));
  const uint32_t one = (scenario.max_model_len + scenario.kv_block_size - 1) / scenario.kv_block_size;
  scenario.kv_blocks =
      one * static_cast<uint32_t>(random.Between(1, 5)) + static_cast<uint32_t>(random.Between(0, 3));
  scenario.vocabulary.size = static_cast<uint32_t>(random.Pick({3, 8, 30, 60}));
}

void ChooseSpeeds(Scenario& scenario, SimRandom& random) {
  scenario.link_min = random.Micros(10, 200);
  scenario.link_max = scenario.link_min + random.Micros(0, random.Chance(0.2) ? 20'000 : 1'000);
  scenario.compute_min = random.Micros(50, 1'000);
  scenario.compute_max = scenario.compute_min + random.Micros(0, 3'000);
  scenario.draft_min = random.Micros(10, 1'000);
  scenario.draft_max = scenario.draft_min + random.Micros(0, random.Chance(0.3) ? 30'000 : 2'000);
}

void ChooseFaults(Scenario& scenario, SimRandom& random) {
  if (random.Chance(0.6)) scenario.publish_loss = 0.01 * static_cast<double>(random.Between(1, 20));
  if (random.Chance(0.4)) scenario.publish_late = 0.01 * static_cast<double>(random.Between(1, 20));
  if (random.Chance(0.4)) scenario.publish_double = 0.2;
  if (random.Chance(0.3)) scenario.control_loss = 0.03;
  scenario.urgent_loss = random.Pick({0.0, 0.2, 1.0});
  if (scenario.has_drafter) {
    while (random.Chance(0.4)) scenario.drafter_deaths.push_back(kStart + random.Micros(1'000, 150'000));
  }
  while (random.Chance(0.15)) scenario.stage_deaths.push_back(kStart + random.Micros(1'000, 150'000));
}

}  // namespace

Scenario MakeScenario(uint64_t seed) {
  SimRandom random(seed);
  Scenario scenario;
  scenario.seed = seed;
  ChooseShape(scenario, random);
  ChooseSpeeds(scenario, random);
  scenario.has_drafter = random.Chance(0.85);
  scenario.agreement = random.Pick({0.0, 0.3, 0.7, 0.9, 1.0});
  scenario.waits_for_proposals = random.Chance(0.4);
  const bool faults = random.Chance(0.8);
  if (faults) ChooseFaults(scenario, random);
  const uint64_t count = random.Between(1, random.Chance(0.5) ? 4 : 20);
  for (uint64_t i = 0; i < count; ++i) scenario.requests.push_back(MakeRequest(scenario, random, faults));
  return scenario;
}

std::string Scenario::ToString() const {
  return fmt::format(
      "seed {}: stages {} slots {} window {} k {} run-ahead {} seqs {} budget {} context {} kv {}x{} vocab "
      "{} "
      "drafter {} agree {} waits {} link {}-{}us compute {}-{}us draft {}-{}us loss {} late {} double {} "
      "control {} urgent {} drafter deaths {} stage deaths {} requests {}",
      seed, num_stages, num_slots, launch_window, draft_len, frames_in_flight_max - 1, max_num_seqs,
      max_num_batched_tokens, max_model_len, kv_blocks, kv_block_size, vocabulary.size, has_drafter,
      agreement, waits_for_proposals, ToMicros(link_min), ToMicros(link_max), ToMicros(compute_min),
      ToMicros(compute_max), ToMicros(draft_min), ToMicros(draft_max), publish_loss, publish_late,
      publish_double, control_loss, urgent_loss, drafter_deaths.size(), stage_deaths.size(), requests.size());
}

}  // namespace paceline::sim
