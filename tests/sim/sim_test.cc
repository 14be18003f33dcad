// The first seeds; longer ranges: paceline-sim --seeds N --first-seed M.
#include <gtest/gtest.h>

#include "tests/sim/cluster.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kSeeds = 2000;

TEST(Simulator, EverySeedGivesTheTokensOfPlainDecodingAndComesToRest) {
  SimResult total;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Scenario scenario = MakeScenario(seed);
    const SimResult result = RunScenario(scenario);
    EXPECT_EQ(result.failure, "") << scenario.ToString();
    total.tokens += result.tokens;
    total.drafts_accepted += result.drafts_accepted;
    total.preemptions += result.preemptions;
    total.run_ahead_steps += result.run_ahead_steps;
    total.generations += result.generations;
  }

  // The seeds really reach what they are for.
  EXPECT_GT(total.tokens, 10'000u);
  EXPECT_GT(total.drafts_accepted, 1'000u);
  EXPECT_GT(total.preemptions, 50u);
  EXPECT_GT(total.run_ahead_steps, 1'000u);
  EXPECT_GT(total.generations, kSeeds);
}

TEST(Simulator, TheSameSeedGivesTheSameEvents) {
  for (uint64_t seed : {3u, 17u, 42u, 77u, 120u}) {
    const SimResult once = RunScenario(MakeScenario(seed));
    const SimResult again = RunScenario(MakeScenario(seed));

    EXPECT_EQ(once.hash, again.hash) << "seed " << seed;
    EXPECT_EQ(once.events, again.events) << "seed " << seed;
  }
}

TEST(Simulator, AnotherSeedIsAnotherRun) {
  EXPECT_NE(RunScenario(MakeScenario(1)).hash, RunScenario(MakeScenario(2)).hash);
}

// A drafter that always agrees, no faults, nothing late: every draft is accepted (B004).
TEST(Simulator, B004_DraftsOfAnEqualModelAreAllAccepted) {
  Scenario scenario = MakeScenario(1);
  scenario.num_stages = 2;
  scenario.draft_len = 4;
  scenario.has_drafter = true;
  scenario.agreement = 1.0;
  scenario.waits_for_proposals = true;
  scenario.publish_loss = scenario.publish_late = scenario.control_loss = 0;
  scenario.drafter_deaths.clear();
  scenario.stage_deaths.clear();
  for (SimRequest& request : scenario.requests) {
    request.at = Instant{} + 2s;  // the drafter has joined
    request.cancel_at = Instant::max();
    request.preempt_at.clear();
    request.sampling.max_tokens = 30;
    request.sampling.min_tokens = 0;
    request.sampling.stop_token_ids.clear();
    request.pair = {};
  }

  const SimResult result = RunScenario(scenario);

  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.tokens, 0u);
  EXPECT_GT(result.drafts_accepted, 0u);
  EXPECT_EQ(result.drafts_rejected, 0u);
}

}  // namespace
}  // namespace paceline::sim
