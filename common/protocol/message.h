// WireMessage: everything that travels on the control lane, the urgent lane and the published logs.
//
// The codec (common/transport) turns a WireMessage into bytes and back; cores and shells handle it by
// std::visit. A new kind is appended, here and in schemas/. (Not "Message": that is a status's text,
// common/base/status.h.)
#pragma once

#include <variant>

#include "common/protocol/membership.h"
#include "common/protocol/sequence_messages.h"
#include "common/protocol/speculation.h"
#include "common/protocol/step_plan.h"

namespace paceline {

using WireMessage = std::variant<Hello, Refusal, Reconfigure, ReconfigureDone, Probe, ProbeSeen,
                                 DrafterChange, Goodbye, Heartbeat, Admission, Release, Cancel, StepPlan,
                                 PlanRequest, Launched, Proposal, Verdict, ReplayRequest, ReplayAnswer>;

}  // namespace paceline
