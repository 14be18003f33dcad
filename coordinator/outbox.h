// What the coordinator's core asks its shell to do, in order.
#pragma once

#include <variant>
#include <vector>

#include "common/protocol/message.h"
#include "coordinator/request/generation.h"

namespace paceline::coord {

// To a worker, on the control lane or, when urgent, on the urgent one (a hint, P5). A worker that cannot be
// reached is no error here: its loss is reported through OnWorkerLost.
struct Send {
  WorkerId to;
  WireMessage message;
  bool urgent = false;
};
// To the sink of that sequence. After a delta with a finish reason the sink is forgotten.
struct Deliver {
  SequenceId sequence;
  GenerationDelta delta;
};
// To the last stage's replay socket; the answer comes back through OnLogMessage.
struct RequestReplay {
  ReplayRequest request;
};
// Subscribe to this verdict log and connect its replay socket (incarnation 0: to none).
struct FollowVerdicts {
  LogSource source;
};

using Action = std::variant<Send, Deliver, RequestReplay, FollowVerdicts>;
using Outbox = std::vector<Action>;

}  // namespace paceline::coord
