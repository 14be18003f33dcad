// What the draft worker's core asks its shell to do, in order.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/base/strong_id.h"
#include "common/protocol/message.h"
#include "draft_worker/proposer.h"

namespace paceline::draft {

// Who asked on the replay socket; the shell maps it to a ZeroMQ routing id.
using ReplayPeer = StrongId<struct DraftReplayPeerTag, uint64_t>;

// To the coordinator on the control lane.
struct SendControl {
  WireMessage message;
};
// On the proposal log: a Proposal or a Probe.
struct Publish {
  WireMessage message;
};
// To one peer on the replay socket: a Proposal or a ReplayAnswer.
struct AnswerReplay {
  ReplayPeer peer;
  WireMessage message;
};
// To the last stage's replay socket; the answer comes back through OnMessage.
struct RequestReplay {
  ReplayRequest request;
};
// To the compute thread: Proposer::Propose(items); answered by OnProposed. At most one is out.
struct Propose {
  StepId step;
  std::vector<ProposeItem> items;
};
// To the compute thread, in order with Propose.
struct AdmitSequence {
  Admission admission;
};
struct ReleaseSequence {
  SequenceKey key;
};
struct ResetProposer {};
// Subscribe to this verdict log and connect its replay socket; then call OnEdgesReady.
struct FollowVerdicts {
  Generation generation;
  LogSource source;
};
// Log the reason and end the process with this code.
struct Leave {
  Status reason;
  int32_t exit_code = 0;
};

using Action = std::variant<SendControl, Publish, AnswerReplay, RequestReplay, Propose, AdmitSequence,
                            ReleaseSequence, ResetProposer, FollowVerdicts, Leave>;
using Outbox = std::vector<Action>;

}  // namespace paceline::draft
