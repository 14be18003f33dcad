// paceline-sim: seeds by hand.
//
//   paceline-sim --seeds 1000 --first-seed 1       a range; prints failures and totals
//   paceline-sim --seed 17                         one, with its scenario
//   paceline-sim --seed 17 --break 5               one with a rule broken (number of ProtocolBreak)
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "tests/sim/cluster.h"

int main(int argc, char** argv) {
  using paceline::sim::MakeScenario;
  using paceline::sim::RunScenario;
  using paceline::sim::SimResult;
  uint64_t seeds = 300;
  uint64_t first = 1;
  uint64_t one = 0;
  int broken = 0;
  CLI::App app("Runs the simulator over a range of seeds");
  app.add_option("--seeds", seeds, "how many");
  app.add_option("--first-seed", first, "where to begin");
  app.add_option("--seed", one, "only this one");
  app.add_option("--break", broken, "ProtocolBreak to set");
  CLI11_PARSE(app, argc, argv);
  if (one != 0) {
    first = one;
    seeds = 1;
  }
  SimResult total;
  uint64_t failed = 0;
  const auto started = std::chrono::steady_clock::now();
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    auto scenario = MakeScenario(seed);
    scenario.broken = static_cast<paceline::ProtocolBreak>(broken);
    if (one != 0) fmt::print("{}\n", scenario.ToString());
    const SimResult result = RunScenario(scenario);
    total.events += result.events;
    total.steps += result.steps;
    total.tokens += result.tokens;
    total.drafts_accepted += result.drafts_accepted;
    total.preemptions += result.preemptions;
    total.generations += result.generations;
    total.run_ahead_steps += result.run_ahead_steps;
    total.virtual_time += result.virtual_time;
    if (result.failure.empty()) continue;
    ++failed;
    fmt::print("FAILED {}\n  {}\n", scenario.ToString(), result.failure);
    std::fflush(stdout);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  fmt::print(
      "{} seeds in {:.1f} s ({:.0f}/s), {} failed; {} events, {} steps, {} run-ahead, {} tokens, {} drafts "
      "accepted, {} preemptions, {} generations, {:.0f} virtual s\n",
      seeds, seconds, static_cast<double>(seeds) / seconds, failed, total.events, total.steps,
      total.run_ahead_steps, total.tokens, total.drafts_accepted, total.preemptions, total.generations,
      paceline::ToSeconds(total.virtual_time));
  return failed == 0 ? 0 : 1;
}
