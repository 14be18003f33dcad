// The nodes of a SimCluster: one process each, with its core and what its shell would keep.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/coordinator_core.h"
#include "draft_worker/core/draft_core.h"
#include "stage_worker/core/stage_core.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/toy_model.h"

namespace paceline::sim {

inline constexpr SimNetwork::NodeId kCoordinatorNode = 0;
inline constexpr SimNetwork::NodeId kDrafterNode = 100;
inline SimNetwork::NodeId StageNodeId(uint32_t stage) { return 1 + stage; }

// A subscription to a published log; messages before `active_from` do not reach it (slow joiner).
struct Subscription {
  Incarnation incarnation;
  Instant active_from = Instant::max();
};

struct SimNode {
  SimNetwork::NodeId id = 0;
  bool alive = false;
  uint64_t life = 0;  // boot nonce: one per start
  Instant tick_at = Instant::max();
  Subscription verdicts;
  Subscription proposals;
};

struct SimStage : SimNode {
  WorkerId worker;
  std::unique_ptr<StageCore> core;
  std::unique_ptr<ToyExecutor> executor;
  std::map<PayloadHandle, ToyPayload> payloads;
  uint64_t handles = 0;
  bool running = false;             // the compute thread has a frame
  std::set<SequenceKey> died;       // of the running frame
  std::function<void()> when_idle;  // reset that waits for the compute thread
};

struct SimDrafter : SimNode {
  WorkerId worker;
  std::unique_ptr<DraftCore> core;
  std::unique_ptr<ToyProposer> proposer;
};

struct SimCoordinator : SimNode {
  std::unique_ptr<CoordinatorCore> core;
};

// A client's request and what came for it.
struct SimClient {
  ExpectedAnswer expected;
  SequenceId sequence;
  std::vector<TokenId> ids;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  bool cancelled = false;
  bool done = false;
};

}  // namespace paceline::sim
