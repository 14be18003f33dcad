// Each rule of the step protocol, broken by its switch, must be noticed by one of the first seeds: by a token
// that differs, by something that never ends, by a watchman, or by an invariant's CHECK. Runs in a child,
// since a CHECK ends the process.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "tests/sim/cluster.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kSeedsMax = 2000;

struct Switch {
  ProtocolBreak broken;
  const char* name;
};

// 0: nothing noticed. 1: a failure of the simulator. Else: the child died of a CHECK.
int RunInChild(uint64_t seed, ProtocolBreak broken) {
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(3);
    Scenario scenario = MakeScenario(seed);
    scenario.broken = broken;
    scenario.events_max = 60'000;  // a run that spins is caught early
    _exit(RunScenario(scenario).failure.empty() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

class BrokenRule : public testing::TestWithParam<Switch> {};

TEST_P(BrokenRule, IsNoticedByASeed) {
  for (uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    if (RunInChild(seed, GetParam().broken) == 0) continue;
    ASSERT_EQ(RunInChild(seed, ProtocolBreak::kNone), 0) << "seed " << seed << " fails with all rules kept";
    RecordProperty("seed", static_cast<int>(seed));
    std::printf("%s is noticed by seed %d\n", GetParam().name, static_cast<int>(seed));
    return;
  }
  FAIL() << GetParam().name << " was not noticed by " << kSeedsMax << " seeds";
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BrokenRule,
    testing::Values(Switch{ProtocolBreak::kP1DropsDeadSteps, "P1DropsDeadSteps"},
                    Switch{ProtocolBreak::kP2SkipsDeltasOfDeadRows, "P2SkipsDeltasOfDeadRows"},
                    Switch{ProtocolBreak::kP3NoQuarantine, "P3NoQuarantine"},
                    Switch{ProtocolBreak::kP4RunsWithoutPlan, "P4RunsWithoutPlan"},
                    Switch{ProtocolBreak::kP5ReleasesEarly, "P5ReleasesEarly"},
                    Switch{ProtocolBreak::kP6IgnoresPlanOrder, "P6IgnoresPlanOrder"},
                    Switch{ProtocolBreak::kP7ComparesLastStageFirst, "P7ComparesLastStageFirst"},
                    Switch{ProtocolBreak::kP8AppliesOnArrival, "P8AppliesOnArrival"},
                    Switch{ProtocolBreak::kP8DropsStaleLineage, "P8DropsStaleLineage"},
                    Switch{ProtocolBreak::kP9IgnoresTrim, "P9IgnoresTrim"},
                    Switch{ProtocolBreak::kP9PlansPastTheEnd, "P9PlansPastTheEnd"},
                    Switch{ProtocolBreak::kP10OmitsKnownIds, "P10OmitsKnownIds"},
                    Switch{ProtocolBreak::kP11StartsWherePlanned, "P11StartsWherePlanned"},
                    Switch{ProtocolBreak::kP12PlansKnownIdsAgain, "P12PlansKnownIdsAgain"},
                    Switch{ProtocolBreak::kP16KeepsOldGeneration, "P16KeepsOldGeneration"},
                    Switch{ProtocolBreak::kP17TinyRing, "P17TinyRing"},
                    Switch{ProtocolBreak::kP19AppliesIncludedVerdict, "P19AppliesIncludedVerdict"}),
    [](const testing::TestParamInfo<Switch>& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace paceline::sim
