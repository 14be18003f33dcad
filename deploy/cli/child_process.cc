#include "deploy/cli/child_process.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "common/actor/signals.h"

namespace paceline {
namespace {

// Runs in the child between fork and exec: only async-signal-safe calls.
[[noreturn]] void ExecChild(pid_t parent, char* const* argv) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  setpgid(0, 0);
  UnblockAllSignals();
  execv(argv[0], argv);
  _exit(127);
}

}  // namespace

std::string ExitState::Describe() const {
  return signal != 0 ? fmt::format("signal {} ({})", signal, strsignal(signal))
                     : fmt::format("exit code {}", exit_code);
}

StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& argv) {
  if (access(argv[0].c_str(), X_OK) != 0) {
    return UnavailableError("{} cannot be started: {}", argv[0], std::strerror(errno));
  }
  std::vector<char*> pointers;
  for (const std::string& arg : argv) pointers.push_back(const_cast<char*>(arg.c_str()));
  pointers.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return UnavailableError("fork: {}", std::strerror(errno));
  if (pid == 0) ExecChild(parent, pointers.data());
  UniqueFd exit_fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!exit_fd.valid()) {
    const Status status = UnavailableError("pidfd_open: {}", std::strerror(errno));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return status;
  }
  return ChildProcess(pid, std::move(exit_fd));
}

void ChildProcess::Signal(int signal) const {
  // The descriptor names this very process, also after its number was given to another.
  syscall(SYS_pidfd_send_signal, exit_fd_.get(), signal, nullptr, 0);
}

ExitState ChildProcess::Reap() {
  int state = 0;
  ExitState out;
  if (waitpid(pid_, &state, 0) == pid_) {
    if (WIFEXITED(state)) out.exit_code = WEXITSTATUS(state);
    if (WIFSIGNALED(state)) out.signal = WTERMSIG(state);
  }
  return out;
}

}  // namespace paceline
