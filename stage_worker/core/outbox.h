// What a stage's core asks its shell to do, in order. The shell carries out every item of a handler's outbox
// before it calls the next handler.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/base/strong_id.h"
#include "common/protocol/frame.h"
#include "common/protocol/message.h"
#include "stage_worker/core/executor.h"

namespace paceline {

// Who asked on the replay socket; the shell maps it to a ZeroMQ routing id.
using ReplayPeer = StrongId<struct ReplayPeerTag, uint64_t>;

namespace stage {

// To the coordinator on the control lane.
struct SendControl {
  WireMessage message;
};
// On the verdict log: a Verdict or a Probe.
struct Publish {
  WireMessage message;
};
// To one peer on the replay socket: a Verdict or a ReplayAnswer.
struct AnswerReplay {
  ReplayPeer peer;
  WireMessage message;
};
// To the drafter's replay socket; the answer comes back through OnMessage.
struct RequestReplay {
  ReplayRequest request;
};
// To the compute thread; answered by OnExecuted. At most one is out.
struct Execute {
  StageWork work;
};
// To the next stage: header, then the payload [rows, hidden_size] of that handle; handle 0 sends zeros. The
// handle is the shell's to free afterwards.
struct ForwardFrame {
  FrameHeader header;
  PayloadHandle payload;
};
// The input or output buffer is not needed any more.
struct FreePayload {
  PayloadHandle payload;
};
// To the compute thread, in order with Execute (last stage).
struct AdmitSequence {
  Admission admission;
};
struct ForgetSequence {
  SequenceKey key;
};
// Set the flag that the compute thread checks between layers: rows of this sequence in this step are dead.
struct RowsDied {
  StepId step;
  SequenceKey key;
};
// Tear down the old edges and build those of this generation: the tensor edge to the next stage and, at stage
// 0 of several, the subscription to config.verdicts. Reset the executor once it is idle; then call
// OnEdgesReady.
struct BuildEdges {
  Reconfigure config;
};
// Subscribe to this proposal log (incarnation 0: to none).
struct FollowProposals {
  LogSource source;
};
// Log the reason and end the process with this code; nothing else works from here on.
struct Leave {
  Status reason;
  int32_t exit_code = 0;
};

using Action =
    std::variant<SendControl, Publish, AnswerReplay, RequestReplay, Execute, ForwardFrame, FreePayload,
                 AdmitSequence, ForgetSequence, RowsDied, BuildEdges, FollowProposals, Leave>;
using Outbox = std::vector<Action>;

}  // namespace stage
}  // namespace paceline
