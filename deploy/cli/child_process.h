// ChildProcess: one program that `paceline serve` started, and the descriptor that tells when it ended.
//
// The child dies with its parent (parent-death signal SIGTERM, so that it cleans up its sockets), has a
// process group of its own (a terminal's ctrl-C reaches the supervisor alone) and inherits environment and
// standard error.
//
//   ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start("stage-0", {"/usr/bin/paceline-stage-worker",
//   "m.gguf"})); loop.AddFd(child.exit_fd(), [&] { LogInfo("exited", "{}", child.Reap().Describe()); });
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace paceline {

struct ExitState {
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  std::string Describe() const;  // "exit code 78", "signal 9 (Killed)"
};

class ChildProcess {
 public:
  // `argv[0]` is the program's path. Unavailable when it cannot be started, with the system's reason.
  static StatusOr<ChildProcess> Start(const std::vector<std::string>& argv);

  pid_t pid() const { return pid_; }
  int exit_fd() const { return exit_fd_.get(); }  // readable once the child has ended
  void Signal(int signal) const;                  // harmless when it has ended
  ExitState Reap();                               // once, when exit_fd is readable

 private:
  ChildProcess(pid_t pid, UniqueFd exit_fd) : pid_(pid), exit_fd_(std::move(exit_fd)) {}
  pid_t pid_ = -1;
  UniqueFd exit_fd_;
};

}  // namespace paceline
