// StageCore: what one pipeline stage decides. A pure state machine: (event, now) -> outbox.
//
// Owned by the stage worker's shell (and by the simulator); all handlers run on the shell's loop thread. The
// core never sends, sleeps, locks or reads a clock. A stage may be first and last at once.
//
//   stage 0        joins plan and proposal, decides what runs and in which order   launcher.h
//   later stages   run frames in order of arrival, each joined with its plan       frame_intake.h
//   every stage    applies table deltas at the frame's place, skips dead rows      sequence_book.h
//   last stage     judges, publishes verdicts and keeps their ring                 verdict_builder.h
//
// Ordering: frames must be handed in as they arrive from the one peer before; control messages in lane order.
// Messages of another generation are dropped and counted, except Reconfigure.
// Failure: a peer that contradicts the protocol makes the core ask for Leave; the coordinator then starts a
// new generation. A broken invariant of our own is a CHECK.
//
//   core.OnMessage(plan, now, out);    // stage 0: Launched, then Execute
//   core.OnExecuted(result, now, out); // ForwardFrame or Publish{Verdict}, then the next Execute
//   core.OnTick(now, out);             // at NextDeadline() or later
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/protocol/message.h"
#include "common/protocol/protocol_break.h"
#include "stage_worker/core/outbox.h"

namespace paceline {

// When stage 0 stops waiting for a proposal. The wait counts from the moment when the step could have run.
struct LateProposalPolicy {
  bool unbounded = false;    // tests: wait until the drafter is known to be gone
  double share = 0.5;        // of the measured step time of this stage
  Duration floor = 5ms;      // shortest wait
  Duration ceiling = 200ms;  // longest wait, also before a step was measured
};

struct StageOptions {
  WorkerId worker;
  uint32_t stage = 0;
  uint32_t num_stages = 1;
  uint32_t hidden_size = 0;  // columns of the payload, stated in frame headers
  uint32_t vocab_size = 0;   // ids of proposals at or above it are dropped; 0 = not checked
  LateProposalPolicy late;
  Duration ask_again = 100ms;      // re-requests of plans and proposals
  Duration probe_interval = 50ms;  // first; doubles up to probe_interval_max
  Duration probe_interval_max = 1s;
  Duration heartbeat_interval = 500ms;
  ProtocolBreak broken = ProtocolBreak::kNone;
};

struct StageStats {
  uint64_t steps_done = 0;
  uint64_t rows_run = 0;
  uint64_t rows_dead = 0;  // travelled, not computed here
  uint64_t launched_without_proposal = 0;
  uint64_t proposals_off_base = 0;   // sequences whose proposal named another base (P11)
  uint64_t position_mismatches = 0;  // last stage: a live frame did not start at the next position (P11)
  uint64_t other_generation = 0;     // messages dropped
  uint64_t plans_asked_again = 0;
  uint64_t proposals_asked_again = 0;
  Duration busy{};
  size_t sequences_known = 0;
  size_t plans_pending = 0;
};

class StageCore {
 public:
  explicit StageCore(StageOptions options);
  ~StageCore();
  StageCore(const StageCore&) = delete;
  StageCore& operator=(const StageCore&) = delete;

  // Anything from the coordinator (control and urgent lane), from the two logs and from replay sockets.
  void OnMessage(const WireMessage& message, Instant now, stage::Outbox& out);
  // The edges of that generation are up and the executor is reset.
  void OnEdgesReady(const Generation& generation, Instant now, stage::Outbox& out);
  // A subscriber of the verdict log asks for a step.
  void OnReplayRequest(ReplayPeer peer, const ReplayRequest& request, Instant now, stage::Outbox& out);
  // From the stage before; `payload` holds its rows.
  void OnFrame(FrameHeader header, PayloadHandle payload, Instant now, stage::Outbox& out);
  void OnExecuted(ExecutionResult result, Instant now, stage::Outbox& out);
  void OnTick(Instant now, stage::Outbox& out);
  // What heartbeats say: "loading 40%", "serving".
  void SetPhase(std::string phase);
  // When OnTick has something to do; Instant::max() if never.
  Instant NextDeadline() const;

  Generation generation() const;
  bool executing() const;
  StageStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
