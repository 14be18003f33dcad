// ProtocolBreak: test-only switches that break one rule of the step protocol each, so that the simulator can
// show that it would notice. Cores take one in their options; programs never set it.
#pragma once

#include <cstdint>

namespace paceline {

enum class ProtocolBreak : uint8_t {
  kNone,
  kP1DropsDeadSteps,           // stage 0 forgets a step whose sequences are all dead
  kP2SkipsDeltasOfDeadRows,    // a stage leaves out the table delta of a dead sequence
  kP3NoQuarantine,             // blocks are free as soon as their owner ends
  kP4RunsWithoutPlan,          // a later stage runs a frame whose plan it has not got
  kP5ReleasesEarly,            // Release goes out before the sequence's last verdict
  kP6IgnoresPlanOrder,         // stage 0 launches a sequence's steps in any order
  kP7ComparesLastStageFirst,   // lineages compare by the refusal counter first
  kP8AppliesOnArrival,         // the coordinator does not wait for the verdicts before
  kP8DropsStaleLineage,        // the coordinator drops a verdict for the last stage's counter
  kP9IgnoresTrim,              // ids behind a stop are published
  kP9PlansPastTheEnd,          // draft length is not clamped to what is left
  kP10OmitsKnownIds,           // a plan leaves the newest committed id to the proposal
  kP11StartsWherePlanned,      // stage 0 takes a continuation's lower bound as its start
  kP12PlansKnownIdsAgain,      // known ids are planned while a live step is out
  kP16KeepsOldGeneration,      // a worker keeps state and takes messages of an old generation
  kP17TinyRing,                // a published ring holds one message
  kP19AppliesIncludedVerdict,  // a drafter applies verdicts its admission already includes
};

}  // namespace paceline
