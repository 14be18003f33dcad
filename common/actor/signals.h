// Signals as events of a loop: SIGTERM and SIGINT arrive as a handler call, never inside other code.
//
//   BlockSignals({SIGTERM, SIGINT});       // first line of main: threads started later inherit the mask
//   EventLoop loop;
//   ASSIGN_OR_RETURN(auto watch, SignalWatch::Create(loop, {SIGTERM, SIGINT}, [&](int) { Drain(); }));
//
// Threading: BlockSignals before any thread starts; the handler runs on the loop's thread. The watch is
// destroyed on the loop's thread or after Run, before the loop.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "common/actor/event_loop.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace paceline {

void BlockSignals(std::initializer_list<int> signals);
// For a child between fork and exec: exec keeps the mask, and a program with SIGTERM blocked cannot be asked
// to end.
void UnblockAllSignals();

class SignalWatch {
 public:
  static StatusOr<std::unique_ptr<SignalWatch>> Create(EventLoop& loop, std::initializer_list<int> signals,
                                                       std::function<void(int signal)> handler);
  ~SignalWatch();

 private:
  SignalWatch(EventLoop& loop, UniqueFd fd, std::function<void(int)> handler);
  void OnReadable();

  EventLoop& loop_;
  UniqueFd fd_;
  std::function<void(int)> handler_;
};

}  // namespace paceline
