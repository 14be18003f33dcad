// SimCluster: the object behind RunScenario. Private to cluster.cc (processes, clients, the run) and
// cluster_planes.cc (outbox items and the network between nodes).
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/cluster.h"
#include "tests/sim/sim_node.h"

namespace paceline::sim {

class SimCluster {
 public:
  explicit SimCluster(const Scenario& scenario)
      : scenario_(scenario), net_(scenario.seed, scenario.link_min, scenario.link_max) {}

  SimResult Run();

 private:
  // Processes.
  void StartCoordinator();
  void StartStage(uint32_t stage);
  void StartDrafter();
  void KillStage(uint32_t stage);
  void KillDrafter();
  void CutPublications(const SimNode& node);
  Hello MakeHello(const WorkerId& worker) const;

  // A handler, then its outbox, then its next tick.
  void OnCoordinator(const std::function<void(coord::Outbox&)>& handle);
  void OnStage(uint32_t stage, const std::function<void(stage::Outbox&)>& handle);
  void OnDrafter(const std::function<void(draft::Outbox&)>& handle);
  void ArmTick(SimNode& node, Instant deadline, std::function<void()> tick);

  void Do(coord::Action& action);
  void Do(SimStage& node, stage::Action& action);
  void Do(draft::Action& action);
  void Do(SimStage& node, stage::Execute& execute);
  void Do(SimStage& node, stage::ForwardFrame& forward);
  void Do(SimStage& node, stage::BuildEdges& build);
  void FinishExecution(SimStage& node, const StageWork& work);

  // Planes.
  void ToCoordinator(const SimNode& from, const WorkerId& worker, WireMessage message);
  void ToWorker(const WorkerId& to, WireMessage message, bool urgent);
  void DeliverToWorker(const WorkerId& to, const WireMessage& message);
  void PublishLog(const SimNode& from, const WireMessage& message);
  void PublishTo(const SimNode& from, const SimNode& to, const WireMessage& message,
                 std::function<void(const WireMessage&)> deliver);
  void Follow(Subscription& subscription, Incarnation incarnation);
  void AskStage(const SimNode& from, const ReplayRequest& request,
                std::function<void(const WireMessage&)> answer);
  void AskDrafter(const SimNode& from, const ReplayRequest& request,
                  std::function<void(const WireMessage&)> answer);

  // Clients.
  void Submit(size_t index);
  void OnDelta(const coord::Deliver& deliver);
  void CheckFinished(const SimClient& client, const SimRequest& request);
  bool AllDone() const;

  void CheckAtRest();
  // Who waits for what, for a failure's message.
  std::string Describe() const;
  void Fail(std::string what) {
    if (failure_.empty()) failure_ = fmt::format("at {} us: {}", ToMicros(net_.now() - Instant{}), what);
  }
  SimStage& stage(uint32_t index) { return stages_[index]; }

  const Scenario& scenario_;
  SimNetwork net_;
  std::string failure_;
  SimCoordinator coordinator_;
  std::vector<SimStage> stages_;
  SimDrafter drafter_;
  uint64_t boots_ = 1000;
  std::set<std::pair<uint64_t, SimNetwork::NodeId>> cut_;  // publisher's life, subscriber: nothing arrives
  std::map<uint64_t, std::function<void(const WireMessage&)>> replay_answers_;  // by peer number
  uint64_t replay_peers_ = 0;

  std::vector<SimClient> clients_;
  std::map<SequenceId, size_t> client_of_;
  uint64_t sequences_ = 0;
  size_t faults_left_ = 0;  // deaths whose restart is still to come
  size_t stage_deaths_seen_ = 0;
  SimResult result_;
};

}  // namespace paceline::sim
