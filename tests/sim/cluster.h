// SimCluster: the real cores of coordinator, stages and drafter over SimNetwork and the toy model.
//
// It is the shell of all of them at once: it carries out every outbox item, with delay, loss, and death. It
// plays the clients, too, and checks every answer against PlainAnswer.
//
//   SimResult result = RunScenario(MakeScenario(17));
//   EXPECT_EQ(result.failure, "");
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/scenario.h"

namespace paceline::sim {

struct SimResult {
  std::string failure;  // empty: every promise was kept
  uint64_t hash = 0;    // of all events
  uint64_t events = 0;
  uint64_t steps = 0;
  uint64_t tokens = 0;
  uint64_t drafts_accepted = 0;
  uint64_t drafts_rejected = 0;
  uint64_t preemptions = 0;
  uint64_t generations = 0;
  uint64_t run_ahead_steps = 0;  // steps of a sequence planned while an earlier one was out
  Duration virtual_time{};
};

SimResult RunScenario(const Scenario& scenario);

}  // namespace paceline::sim
