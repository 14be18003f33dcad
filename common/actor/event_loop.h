// EventLoop: one thread that waits for sockets, descriptors, timers and posted work, and runs their handlers
// one after the other.
//
// Each process shell owns one; the pure core behind it is called only from its handlers, so cores need no
// lock. Nothing polls: an idle loop sleeps in the kernel.
//
//   EventLoop loop;
//   loop.AddFd(fd, [&] { ReadSome(fd); });
//   loop.Every(500ms, [&] { SendHeartbeat(); });
//   loop.Run();                          // until Stop
//   ...                                  // other thread, when compute is done:
//   if (!loop.Post([&] { core.OnExecuted(step); })) ...
//
// Ordering: within one turn first sockets and descriptors, in the order they were added (so add an urgent
// lane first), then timers that are due, by time, then what was posted before the turn, in order of Post.
//
// Threading: Post and Stop from any thread. Everything else from the loop's thread, or before Run.
//
// Limits: `posted_max` closures wait at most; Post answers false when they do, and after Stop. Handlers of
// readable sockets are level-triggered: one that leaves data behind is called again in the next turn, so a
// handler takes a bounded number of messages per call.
//
// Failure: handlers do not throw. A socket or descriptor must be removed before it is closed. Handlers may
// add and remove anything, themselves included.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/strong_id.h"
#include "common/base/unique_fd.h"

struct zmq_pollitem_t;

namespace paceline {

class EventLoop {
 public:
  using Handler = std::function<void()>;
  using TimerId = StrongId<struct LoopTimerIdTag, uint64_t>;

  explicit EventLoop(size_t posted_max = 65536);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // `zmq_socket` is a raw ZeroMQ socket handle (void*); common/transport adds its own.
  void AddZmqSocket(void* zmq_socket, Handler readable);
  void RemoveZmqSocket(void* zmq_socket);
  void AddFd(int fd, Handler readable);
  void RemoveFd(int fd);

  // Once, at `when` or right after it; Cancel of a timer that has fired is harmless.
  TimerId At(Instant when, Handler handler);
  TimerId After(Duration delay, Handler handler);
  // Every `period` from now on; turns that were missed are skipped, not caught up.
  TimerId Every(Duration period, Handler handler);
  void Cancel(TimerId timer);

  // Runs `fn` on the loop's thread. False: `posted_max` are waiting or the loop was stopped; fn is dropped.
  bool Post(Handler fn);
  // Run returns after the turn in progress; what is still posted is dropped.
  void Stop();
  // Runs handlers until Stop. Called once.
  void Run();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

 private:
  struct Source {
    void* zmq_socket = nullptr;  // or
    int fd = -1;
    std::shared_ptr<Handler> handler;  // null: removed; shared so that a handler may remove itself
  };
  struct Timer {
    TimerId id;
    Duration period{};  // 0 = once
    std::shared_ptr<Handler> handler;
  };

  TimerId AddTimer(Instant when, Duration period, Handler handler);
  void ArmTimer();
  void Wait(std::vector<zmq_pollitem_t>& items);
  void RunReadySources(const std::vector<zmq_pollitem_t>& items);
  void RunDueTimers();
  void RunPosted();
  void WakeUp();

  const size_t posted_max_;
  UniqueFd wake_fd_;   // eventfd: Post and Stop
  UniqueFd timer_fd_;  // timerfd: the next timer, to the nanosecond (zmq_poll counts milliseconds)
  std::vector<Source> sources_;
  std::multimap<Instant, Timer> timers_;
  std::map<TimerId, Instant> timer_times_;
  TimerId next_timer_{1};
  Instant armed_ = Instant::max();

  std::mutex posted_mutex_;
  std::vector<Handler> posted_;  // guarded by posted_mutex_
  std::atomic<bool> stopped_{false};
};

// A thread, named, that runs an EventLoop from construction to destruction (which stops and joins it).
class LoopThread {
 public:
  // `name` is what ps and debuggers show: at most 15 characters.
  explicit LoopThread(std::string name, size_t posted_max = 65536);
  ~LoopThread();
  EventLoop& loop() { return *loop_; }
  // Runs `fn` on the loop's thread and waits for it; for set-up and tear-down, never from the loop itself.
  void RunAndWait(const EventLoop::Handler& fn);

 private:
  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;
};

// Names the calling thread, cut to 15 characters.
void NameThisThread(const std::string& name);

}  // namespace paceline
