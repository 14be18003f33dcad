#include "common/actor/signals.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace paceline {
namespace {

sigset_t SetOf(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  return set;
}

}  // namespace

void BlockSignals(std::initializer_list<int> signals) {
  const sigset_t set = SetOf(signals);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void UnblockAllSignals() {
  const sigset_t none = SetOf({});
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

StatusOr<std::unique_ptr<SignalWatch>> SignalWatch::Create(EventLoop& loop,
                                                           std::initializer_list<int> signals,
                                                           std::function<void(int signal)> handler) {
  const sigset_t set = SetOf(signals);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return UnavailableError("signalfd: {}", std::strerror(errno));
  return std::unique_ptr<SignalWatch>(new SignalWatch(loop, std::move(fd), std::move(handler)));
}

SignalWatch::SignalWatch(EventLoop& loop, UniqueFd fd, std::function<void(int)> handler)
    : loop_(loop), fd_(std::move(fd)), handler_(std::move(handler)) {
  loop_.AddFd(fd_.get(), [this] { OnReadable(); });
}

SignalWatch::~SignalWatch() { loop_.RemoveFd(fd_.get()); }

// One signal a call: the handler may destroy the watch.
void SignalWatch::OnReadable() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  const auto handler = handler_;
  handler(static_cast<int>(info.ssi_signo));
}

}  // namespace paceline
