// DraftCore: what the draft worker decides: which plans get a proposal, from which guess, in which order.
//
// Owned by the draft worker's shell (and by the simulator); all handlers run on its loop thread. Pure: the
// proposer itself runs on the compute thread (outbox item Propose).
//
// Promises: exactly one Proposal per plan that awaits one, possibly empty, kept in a ring for re-requests
// (P17). Each sequence's chain is its committed ids, as verdicts tell them in log order, and behind them the
// drafter's own guess; a continuation is drafted from that guess (draft_chain.h).
// Failure: a verdict that is missed is asked for again on a timer; until it comes, plans that need it wait
// and stage 0 goes without. Nothing here can make a token wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/protocol/message.h"
#include "common/protocol/protocol_break.h"
#include "draft_worker/core/outbox.h"

namespace paceline {

struct DraftOptions {
  WorkerId worker;
  Duration ask_again = 100ms;      // re-requests of verdicts and plans
  Duration probe_interval = 50ms;  // first; doubles up to probe_interval_max
  Duration probe_interval_max = 1s;
  Duration heartbeat_interval = 500ms;
  ProtocolBreak broken = ProtocolBreak::kNone;
};

struct DraftStats {
  uint64_t proposals = 0;  // published
  uint64_t ids_proposed = 0;
  uint64_t sequences_empty = 0;  // awaited sequences that got no ids
  uint64_t verdicts_asked_again = 0;
  uint64_t plans_asked_again = 0;
  uint64_t chains_broken = 0;     // a verdict did not begin where the chain ends (P8): no drafts for it
  uint64_t other_generation = 0;  // messages dropped
  Duration busy{};
  size_t sequences_known = 0;
  size_t plans_pending = 0;
};

class DraftCore {
 public:
  explicit DraftCore(DraftOptions options);
  ~DraftCore();
  DraftCore(const DraftCore&) = delete;
  DraftCore& operator=(const DraftCore&) = delete;

  // Anything from the coordinator, the verdict log and the replay socket.
  void OnMessage(const WireMessage& message, Instant now, draft::Outbox& out);
  void OnEdgesReady(const Generation& generation, Instant now, draft::Outbox& out);
  void OnReplayRequest(draft::ReplayPeer peer, const ReplayRequest& request, Instant now, draft::Outbox& out);
  // The answer to Propose: one list of ids per item.
  void OnProposed(StepId step, std::vector<std::vector<TokenId>> ids, uint32_t micros, Instant now,
                  draft::Outbox& out);
  void OnTick(Instant now, draft::Outbox& out);
  Instant NextDeadline() const;
  // What heartbeats say: "loading 40%", "serving".
  void SetPhase(std::string phase);

  Generation generation() const;
  DraftStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
