// StepLedger: every plan from its sending to its verdict (P1, P4), with the slots and credits it holds.
//
// Owned by CoordinatorCore. A slot and the quarantine of blocks are released by the verdict, once per step;
// the credit of stage 0 returns at launch, or with the verdict if the word of the launch was lost.
//
//   while (ledger.CanOpen()) ledger.Open(plan, now);
//   ledger.OnLaunched(step);
//   for (SequenceKey key : ledger.Book(step)) ...   // attempts that are out of the pipe now (P5)
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/clock.h"
#include "common/protocol/sequence_key.h"
#include "common/protocol/step_plan.h"

namespace paceline {

struct LedgerStep {
  StepPlan plan;
  bool launched = false;
  Instant resend_at = Instant::max();  // the plan, while nobody launched it
  Instant ask_at = Instant::max();     // for the verdict
  Duration ask_interval{};
};

class StepLedger {
 public:
  void Reset(uint32_t num_slots, uint32_t launch_window);

  bool CanOpen() const { return !slots_free_.empty() && unlaunched_ < launch_window_; }
  // Numbers the plan and gives it a slot. The reference lives until Book.
  const StepPlan& Open(StepPlan plan, Instant now, Duration resend, Duration ask);
  void OnLaunched(StepId step);
  // The step's verdict came. Answers ended attempts whose last step this was.
  std::vector<SequenceKey> Book(StepId step);
  const LedgerStep* Find(StepId step) const;

  // Steps of that attempt without a verdict.
  std::vector<StepId> StepsOf(const SequenceKey& key) const;
  // The attempt is over. True when nothing of it is in the pipe; else Book answers it later.
  bool EndAttempt(const SequenceKey& key);

  // Nobody drafts any more: copies that are sent again must not await a proposal.
  void StopAwaiting();
  std::vector<StepId> PlansToResend(Instant now, Duration again);
  std::vector<StepId> VerdictsToAsk(Instant now, Duration longest);
  // A hole in the verdict log: all that are out are asked for now.
  void AskAllNow(Instant now);
  Instant NextDeadline() const;

  const std::map<StepId, LedgerStep>& open() const { return steps_; }
  uint32_t num_slots() const { return num_slots_; }
  uint32_t slots_free() const { return static_cast<uint32_t>(slots_free_.size()); }
  uint32_t credits_free() const { return launch_window_ - unlaunched_; }
  uint32_t launch_window() const { return launch_window_; }
  StepId newest() const { return newest_; }
  uint64_t booked() const { return booked_; }

 private:
  uint32_t num_slots_ = 0;
  uint32_t launch_window_ = 0;
  uint32_t unlaunched_ = 0;
  uint64_t booked_ = 0;
  StepId newest_;
  std::vector<uint32_t> slots_free_;
  std::map<StepId, LedgerStep> steps_;
  absl::flat_hash_map<SequenceKey, std::vector<StepId>> steps_of_;
  absl::flat_hash_set<SequenceKey> ended_;
};

}  // namespace paceline
