// Supervisor: `paceline serve` on one host. Starts coordinator, stage workers and draft worker, restarts
// workers that die, and leaves nothing behind.
//
// A worker that dies is started again after a growing pause (0.1 s to 30 s): the coordinator then forms a new
// generation, or, for the draft worker, serves without drafts until it is back. Codes 76 and 78 say that a
// restart is useless: the server stops with that code. So does a worker that dies more than `kDeathsMax`
// times a minute (75). The coordinator's end is the server's end.
//
// SIGTERM and SIGINT: the coordinator drains for --shutdown-timeout, then everything stops; a second signal
// stops at once. Threads: the caller's, on its own loop.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/actor/event_loop.h"
#include "common/actor/signals.h"
#include "common/config/serve_config.h"
#include "deploy/cli/child_process.h"

namespace paceline {

struct SupervisedProgram {
  std::string name;  // "stage-1"
  std::vector<std::string> argv;
  bool essential = false;  // its end is the end of all (the coordinator)
};

class Supervisor {
 public:
  Supervisor(std::vector<SupervisedProgram> programs, Duration drain_max);

  // Until all children have ended: the exit code of the server.
  int Run();

 private:
  struct Member {
    SupervisedProgram program;
    std::optional<ChildProcess> child;
    std::deque<Instant> deaths;  // within the last minute
    Duration pause = 100ms;
  };

  Status StartMember(Member& member);
  void OnExit(Member& member);
  void OnWorkerDeath(Member& member, const ExitState& state);
  void OnSignal(int signal);
  void StopAll(int exit_code, std::string_view reason);
  void FinishIfAllEnded();

  const Duration drain_max_;
  EventLoop loop_;
  std::vector<std::unique_ptr<Member>> members_;
  bool stopping_ = false;
  int signals_seen_ = 0;
  int exit_code_ = 0;
};

}  // namespace paceline
