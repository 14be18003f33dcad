// What the coordinator tells workers about a sequence outside of plans.
#pragma once

#include <vector>

#include "common/protocol/sampling_params.h"
#include "common/protocol/speculation.h"
#include "common/protocol/types.h"

namespace paceline {

// To the last stage and to the draft worker before the first plan of a (sequence, coordinator counter); sent
// again after a reconfiguration or a restart of either (design section 2, point 0).
struct Admission {
  Generation generation;
  SequenceId sequence;
  Lineage lineage;           // last_stage = 0 at a fresh admission
  std::vector<TokenId> ids;  // prompt, then what was committed so far
  uint32_t prompt_len = 0;   // tokens of ids that are the prompt
  SamplingParams sampling;
  // P19: the newest verdict (by its publisher's log) whose ids are in `ids`; a drafter applies only later
  // ones.
  uint64_t verdict_log_sequence = 0;

  bool operator==(const Admission&) const = default;
};

// After an attempt's last verdict (P5); workers forget exactly this (sequence, coordinator counter). Each
// attempt gets its own: an earlier one may still have steps in the pipe.
struct Release {
  Generation generation;
  SequenceId sequence;
  uint32_t coordinator_counter = 0;

  bool operator==(const Release&) const = default;
};

// Urgent lane, a hint (P5): work of the sequence below this lineage is dead.
struct Cancel {
  Generation generation;
  SequenceId sequence;
  Lineage lineage;

  bool operator==(const Cancel&) const = default;
};

// Stage 0 to the coordinator: the step was launched; its credit returns (P1).
struct Launched {
  Generation generation;
  StepId step;
  bool without_proposal = false;  // a proposal was awaited and stage 0 went without it

  bool operator==(const Launched&) const = default;
};

// Worker to coordinator: send me that plan (and the admissions of its sequences) again (P4).
struct PlanRequest {
  Generation generation;
  StepId step;

  bool operator==(const PlanRequest&) const = default;
};

}  // namespace paceline
