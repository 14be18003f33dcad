// Who is in the cluster: the handshake, the generation and its probes.
//
//   worker                         coordinator
//   Hello ------------------------>            compares; mismatch -> Refusal, the worker exits 76
//         <------------------------ Reconfigure (when all stages have said Hello)
//   builds its edges, subscribes
//   ReconfigureDone -------------->            every publisher publishes Probe until all subscribers confirm
//   ProbeSeen -------------------->
//         <------------------------ first StepPlan
//
// A draft worker that comes late or again: Hello, then DrafterChange to the stages, the same probe in both
// directions, admissions, and only then do plans await it (P19).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/protocol/speculation.h"
#include "common/protocol/types.h"

namespace paceline {

inline constexpr uint16_t kProtocolMajor = 1;
inline constexpr uint16_t kProtocolMinor = 0;

enum class Role : uint8_t { kCoordinator = 0, kStage = 1, kDrafter = 2 };

struct WorkerId {
  Role role = Role::kStage;
  uint32_t rank = 0;  // stage x tensor-parallel size + tensor-parallel rank; 0 for the drafter
  uint64_t boot_nonce = 0;
  auto operator<=>(const WorkerId&) const = default;
};

// What two processes must agree on (design section 6). Compared field by field; the refusal names the field.
struct Fingerprint {
  uint16_t protocol_major = kProtocolMajor;
  uint16_t protocol_minor = kProtocolMinor;
  std::string build_id;
  std::string model_digest;
  std::string tokenizer_digest;
  std::string dtype;           // of activations and cache: "f32/f16"
  std::string numerics_class;  // instruction-set class whose last bits agree
  uint32_t pipeline_size = 1;
  uint32_t tensor_size = 1;
  uint32_t num_layers = 0;
  std::vector<uint32_t> layers_per_stage;  // empty from a drafter

  bool operator==(const Fingerprint&) const = default;
};

// Addresses a worker listens on; empty where its role has none. ZeroMQ endpoints ("ipc://...",
// "tcp://10.0.0.1:4001") for the logs; the tensor listener is "unix:/path" (shared memory) or
// "tcp:host:port".
struct WorkerEndpoints {
  std::string log_publish;    // PUB of proposals (drafter) or verdicts (last stage)
  std::string log_replay;     // ROUTER answering re-requests of that log
  std::string tensor_listen;  // where the previous stage connects; empty at stage 0

  bool operator==(const WorkerEndpoints&) const = default;
};

struct Hello {
  WorkerId worker;
  Fingerprint fingerprint;
  WorkerEndpoints endpoints;
  std::string host;
  uint32_t pid = 0;
  uint32_t kv_blocks = 0;  // what the pool of this stage can hold; the cluster uses the smallest
  uint32_t kv_block_size = 0;

  bool operator==(const Hello&) const = default;
};

// Coordinator to worker; the worker exits with `exit_code` (interface section 1).
struct Refusal {
  std::string reason;  // names the field, both values and what to change
  int32_t exit_code = 76;

  bool operator==(const Refusal&) const = default;
};

struct LogSource {
  Incarnation incarnation;  // 0 = there is none
  std::string publish;
  std::string replay;

  bool operator==(const LogSource&) const = default;
};

struct Reconfigure {
  Generation generation;
  uint32_t num_stages = 1;
  uint32_t kv_blocks = 0;
  uint32_t kv_block_size = 0;
  uint32_t num_slots = 1;      // microbatch slots; rings hold at least these plus the launch window (P17)
  uint32_t launch_window = 1;  // credits of stage 0
  uint32_t rows_max = 0;       // most rows of a frame
  uint32_t draft_len_max = 0;
  std::string next_stage_tensor_listen;  // where this stage connects; empty at the last
  LogSource verdicts;
  LogSource proposals;  // incarnation 0 = no drafter now

  bool operator==(const Reconfigure&) const = default;
};

// P16: said only when the device is idle and the edges are up.
struct ReconfigureDone {
  Generation generation;
  bool operator==(const ReconfigureDone&) const = default;
};

// Published by each log's owner until every subscriber has confirmed it.
struct Probe {
  Generation generation;
  Incarnation incarnation;
  bool operator==(const Probe&) const = default;
};

// Subscriber to coordinator: that publisher's messages reach me.
struct ProbeSeen {
  Generation generation;
  Incarnation incarnation;
  bool operator==(const ProbeSeen&) const = default;
};

// Coordinator to stages and drafter: the proposals of the generation now come from here, or from nobody.
struct DrafterChange {
  Generation generation;
  LogSource proposals;
  bool operator==(const DrafterChange&) const = default;
};

// Either side to the other before a clean close. From the coordinator: end your work and exit 0.
struct Goodbye {
  std::string reason;
  bool operator==(const Goodbye&) const = default;
};

// Worker to coordinator every 500 ms and after each step: link and progress heartbeat in one.
struct Heartbeat {
  Generation generation;
  uint64_t steps_done = 0;   // progress: grows while the step loop works
  StepId step_running;       // 0 = idle
  std::string phase;         // "loading 40%", "waiting for stage 1", "serving"
  uint64_t busy_micros = 0;  // compute time since boot
  uint64_t idle_micros = 0;

  bool operator==(const Heartbeat&) const = default;
};

// Re-request of a published message by step id, and its answer (P17).
struct ReplayRequest {
  Generation generation;
  StepId step;
  bool operator==(const ReplayRequest&) const = default;
};

enum class ReplayState : uint8_t { kNotYet = 0, kGone = 1 };

// The answer when the message itself is not sent.
struct ReplayAnswer {
  Generation generation;
  StepId step;
  Incarnation incarnation;
  ReplayState state = ReplayState::kNotYet;

  bool operator==(const ReplayAnswer&) const = default;
};

}  // namespace paceline
