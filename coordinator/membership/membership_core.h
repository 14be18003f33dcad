// MembershipCore: who is in the cluster, which generation it is in, and who is lost.
//
// Owned by CoordinatorCore. Gathers Hellos, refuses those that differ, starts a generation when every stage
// is there (Reconfigure, done, probe of the verdict log), and lets a draft worker join and leave beside it
// (P19: reconfigured, then probed in both directions). What the rest of the core must know comes as events.
//
//   gathering --all stages said Hello--> reconfiguring --done and probed--> serving --a stage is lost-->
//   gathering
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "coordinator/coordinator_core.h"
#include "coordinator/outbox.h"

namespace paceline {

struct MembershipEvent {
  enum class Kind : uint8_t {
    kServing,       // plans may go out
    kStageLost,     // `reason` names it; the generation is over
    kDrafterReady,  // after its admissions plans may await it
    kDrafterLost,
  };
  Kind kind;
  std::string reason;
};

// Names the first field that differs, both values and what to do; OK when they may work together. Empty
// strings and lists in `want` are not compared.
Status CompareFingerprints(const Fingerprint& want, const Fingerprint& found, Role role);

class MembershipCore {
 public:
  MembershipCore(const CoordinatorOptions& options, uint32_t num_slots)
      : options_(options), num_slots_(num_slots), pinned_(options.fingerprint) {}

  void OnMessage(const WorkerId& from, const WireMessage& message, Instant now, coord::Outbox& out);
  // On the coordinator's own subscription.
  void OnProbe(const Probe& probe, Instant now, coord::Outbox& out);
  void OnWorkerLost(const WorkerId& worker, std::string_view reason, Instant now, coord::Outbox& out);
  // The last stage contradicts the protocol: the generation is over, and the stage must leave.
  void OnStageFault(std::string_view reason, Instant now, coord::Outbox& out);
  void OnTick(Instant now, coord::Outbox& out);
  Instant NextDeadline() const;
  void SayGoodbye(std::string_view reason, coord::Outbox& out);
  std::vector<MembershipEvent> TakeEvents();

  bool serving() const { return state_ == State::kServing; }
  bool drafter_ready() const { return drafter_ && drafter_->ready; }
  const Generation& generation() const { return generation_; }
  uint32_t kv_blocks() const { return kv_blocks_; }
  uint32_t kv_block_size() const { return kv_block_size_; }
  uint64_t generations() const { return generation_.counter; }
  bool expects(const Generation& generation) const { return generation == generation_; }
  // Members of the generation, in pipeline order; the drafter only when it is ready.
  std::vector<WorkerId> stages() const;
  std::optional<WorkerId> drafter() const;
  Status Readiness() const;
  std::vector<WorkerStatus> workers(Instant now) const;

 private:
  enum class State : uint8_t { kGathering, kReconfiguring, kServing };
  struct Member {
    Hello hello;
    Instant heard_at{};
    Heartbeat beat;
    Instant progressed_at{};
    bool done = false;           // ReconfigureDone of this generation
    bool sees_verdicts = false;  // the last stage's probe of this generation reached it
    bool sees_proposals = false;
    bool ready = false;  // drafter: joined
    bool joining = false;
  };

  void OnHello(const WorkerId& from, const Hello& hello, Instant now, coord::Outbox& out);
  Status CheckHello(const Hello& hello) const;
  void Pin(const Fingerprint& fingerprint);
  void StartGeneration(Instant now, coord::Outbox& out);
  Reconfigure ConfigFor(uint32_t stage) const;
  void StartDrafterJoin(Instant now, coord::Outbox& out);
  void Advance(Instant now, coord::Outbox& out);
  void AdvanceDrafter(coord::Outbox& out);
  void LoseStage(uint32_t rank, std::string_view reason, coord::Outbox& out);
  void LoseDrafter(std::string_view reason, coord::Outbox& out);
  void SendToStages(const WireMessage& message, coord::Outbox& out) const;
  bool stages_complete() const { return stages_.size() == options_.num_stages; }
  Member* Find(const WorkerId& worker);
  LogSource VerdictSource() const;
  LogSource ProposalSource() const;
  std::optional<std::string> Silence(const Member& member, Instant now) const;

  const CoordinatorOptions& options_;
  const uint32_t num_slots_;
  Fingerprint pinned_;
  State state_ = State::kGathering;
  Generation generation_;
  uint32_t kv_blocks_ = 0;
  uint32_t kv_block_size_ = 1;
  bool own_probe_seen_ = false;
  std::map<uint32_t, Member> stages_;
  std::optional<Member> drafter_;
  Instant resend_at_ = Instant::max();
  std::string last_loss_;
  std::vector<MembershipEvent> events_;
};

}  // namespace paceline
