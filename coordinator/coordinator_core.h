// CoordinatorCore: the truth of the cluster: requests and their committed ids, KV blocks, plans, membership.
//
// Owned by the coordinator's shell (and by the simulator); all handlers run on the engine's thread. Pure:
// (event, now) -> outbox.
//
//   membership/   who is there, generation, probes, heartbeats            membership_core.h
//   scheduler/    which sequences the next step takes, and how far        step_planner.h
//   kv/           logical blocks and their quarantine                     block_allocator.h
//   pipeline/     plans until their verdict; verdicts in log order        step_ledger.h, verdict_log.h
//   request/      one choice: ids, lineage, the one trim                  choice.h, trim.h
//   speculation/  draft length, acceptance by position                    draft_length.h
//
// Promises: every accepted request gets deltas in token order, the last of which has a finish reason. Ids are
// delivered only after they are committed; a committed id never changes.
// Failure: a lost stage ends every open request with an error that names the stage; the next generation
// starts when all stages have said Hello again. A lost draft worker only turns speculation off.
//
//   core.OnSubmit(id, request, now, out);         // Send{Admission}, Send{StepPlan} when a slot is free
//   core.OnLogMessage(verdict, now, out);         // Deliver, then the next plans
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/protocol/protocol_break.h"
#include "coordinator/outbox.h"

namespace paceline {

struct CoordinatorOptions {
  uint64_t boot_nonce = 1;
  // What every stage must equal. Empty strings and lists are not compared with it but pinned by the first
  // stage that says Hello.
  Fingerprint fingerprint;
  uint32_t num_stages = 1;
  uint32_t num_slots = 0;                  // microbatch slots (num_virtual_engines); 0 = num_stages
  uint32_t launch_window = 2;              // credits of stage 0: plans sent and not launched
  uint32_t max_num_seqs = 256;             // sequences that own blocks
  uint32_t max_num_batched_tokens = 2048;  // rows of a step
  uint32_t max_model_len = 2048;           // tokens of a sequence, prompt included
  uint32_t max_queued_requests = 2048;     // waiting; beyond: ResourceExhausted
  uint32_t kv_blocks_max = 0;              // 0 = what the smallest stage has
  uint32_t num_speculative_tokens = 0;     // 0 = never
  uint32_t frames_in_flight_max = 1;       // of one sequence; 1 = no run-ahead
  bool expects_drafter = false;
  Duration ask_again = 50ms;        // re-requests of verdicts
  Duration plan_resend = 500ms;     // a plan that was not launched by then is sent again (P4)
  Duration heartbeat_timeout = 2s;  // silence of a worker
  Duration step_timeout = 60s;      // a step that runs without progress
  ProtocolBreak broken = ProtocolBreak::kNone;
};

struct WorkerStatus {
  WorkerId worker;
  std::string host;
  uint32_t pid = 0;
  std::string phase;
  Duration heartbeat_age{};
  uint64_t steps_done = 0;
  uint64_t busy_micros = 0;
  uint64_t idle_micros = 0;
};

struct CoordinatorStats {
  size_t requests_running = 0;
  size_t requests_waiting = 0;
  uint32_t kv_blocks_total = 0;
  uint32_t kv_blocks_free = 0;
  uint32_t slots_free = 0;
  uint64_t prompt_tokens = 0;
  uint64_t generation_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t finished_stop = 0;
  uint64_t finished_length = 0;
  uint64_t finished_cancelled = 0;
  uint64_t finished_error = 0;
  uint64_t steps_planned = 0;
  uint64_t verdicts_booked = 0;
  uint64_t verdicts_asked_again = 0;
  uint64_t plans_resent = 0;
  uint64_t launched_without_proposal = 0;
  uint64_t other_generation = 0;  // messages dropped
  // Speculation, over verdicts that were applied: a "draft" is a sequence's step with drafted rows.
  uint64_t drafts = 0;
  uint64_t draft_tokens = 0;
  uint64_t accepted_tokens = 0;
  std::vector<uint64_t> accepted_per_position;
  uint64_t wasted_rejected = 0;  // drafted rows refused, or dead because a row before was
  uint64_t wasted_past_end = 0;  // ids drawn behind a stop or a cap
  uint64_t generations = 0;      // reconfigurations so far
};

class CoordinatorCore {
 public:
  explicit CoordinatorCore(CoordinatorOptions options);
  ~CoordinatorCore();
  CoordinatorCore(const CoordinatorCore&) = delete;
  CoordinatorCore& operator=(const CoordinatorCore&) = delete;

  // `sequence` is new. ResourceExhausted: queue full. InvalidArgument: it can never fit. Unavailable: no
  // generation serves, or draining. Only an accepted request gets deltas.
  Status OnSubmit(SequenceId sequence, GenerationRequest request, Instant now, coord::Outbox& out);
  // Ends with a delta kCancelled; unknown or finished sequences are ignored.
  void OnCancel(SequenceId sequence, Instant now, coord::Outbox& out);
  // Back to waiting, its blocks freed; it goes on from its committed ids. The planner does the same when the
  // pool is empty.
  void OnPreempt(SequenceId sequence, Instant now, coord::Outbox& out);
  // From a worker's control socket.
  void OnMessage(const WorkerId& from, const WireMessage& message, Instant now, coord::Outbox& out);
  // From the verdict log or its replay socket: Verdict, Probe, ReplayAnswer.
  void OnLogMessage(const WireMessage& message, Instant now, coord::Outbox& out);
  // The supervisor or the socket says that this worker is gone; `reason` becomes part of the error.
  void OnWorkerLost(const WorkerId& worker, std::string_view reason, Instant now, coord::Outbox& out);
  // No new requests; idle() tells when the running ones are done.
  void Drain();
  // Goodbye to every worker; open requests end with this error.
  void Shutdown(std::string_view reason, Instant now, coord::Outbox& out);
  void OnTick(Instant now, coord::Outbox& out);
  Instant NextDeadline() const;

  // Serving; else whom it waits for.
  Status Readiness() const;
  bool drafter_ready() const;
  Generation generation() const;
  // No request and no step is out. Then also checks that slots, credits and blocks are whole.
  bool idle() const;
  CoordinatorStats stats() const;
  std::vector<WorkerStatus> workers(Instant now) const;
  const std::vector<TokenId>* committed_ids(SequenceId sequence) const;  // null when unknown or finished

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
