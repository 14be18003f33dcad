#include "common/actor/event_loop.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "common/base/check.h"

namespace paceline {
namespace {

// Poll items before those of the sources.
constexpr size_t kWakeItem = 0;
constexpr size_t kTimerItem = 1;
constexpr size_t kFirstSourceItem = 2;

zmq_pollitem_t ItemOfFd(int fd) { return {.socket = nullptr, .fd = fd, .events = ZMQ_POLLIN, .revents = 0}; }

// eventfd and timerfd both answer a read with a counter and are quiet until the next event.
void Drain(int fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t bytes = ::read(fd, &count, sizeof count);
}

}  // namespace

EventLoop::EventLoop(size_t posted_max)
    : posted_max_(posted_max),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_fd_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  CHECK(wake_fd_.valid() && timer_fd_.valid()) << "event loop: " << std::strerror(errno);
}

EventLoop::~EventLoop() = default;

void EventLoop::AddZmqSocket(void* zmq_socket, Handler readable) {
  sources_.push_back({.zmq_socket = zmq_socket, .handler = std::make_shared<Handler>(std::move(readable))});
}

void EventLoop::AddFd(int fd, Handler readable) {
  sources_.push_back({.fd = fd, .handler = std::make_shared<Handler>(std::move(readable))});
}

void EventLoop::RemoveZmqSocket(void* zmq_socket) {
  for (Source& source : sources_) {
    if (source.zmq_socket == zmq_socket) source.handler = nullptr;
  }
}

void EventLoop::RemoveFd(int fd) {
  for (Source& source : sources_) {
    if (source.zmq_socket == nullptr && source.fd == fd) source.handler = nullptr;
  }
}

EventLoop::TimerId EventLoop::AddTimer(Instant when, Duration period, Handler handler) {
  const TimerId id = std::exchange(next_timer_, next_timer_.Next());
  timers_.emplace(when, Timer{id, period, std::make_shared<Handler>(std::move(handler))});
  timer_times_.emplace(id, when);
  return id;
}

EventLoop::TimerId EventLoop::At(Instant when, Handler handler) {
  return AddTimer(when, Duration::zero(), std::move(handler));
}

EventLoop::TimerId EventLoop::After(Duration delay, Handler handler) {
  return AddTimer(MonotonicNow() + delay, Duration::zero(), std::move(handler));
}

EventLoop::TimerId EventLoop::Every(Duration period, Handler handler) {
  CHECK_GT(period.count(), 0) << "a timer without a period would spin";
  return AddTimer(MonotonicNow() + period, period, std::move(handler));
}

void EventLoop::Cancel(TimerId timer) {
  const auto time = timer_times_.find(timer);
  if (time == timer_times_.end()) return;
  const auto [begin, end] = timers_.equal_range(time->second);
  const auto entry = std::find_if(begin, end, [&](const auto& item) { return item.second.id == timer; });
  timers_.erase(entry);
  timer_times_.erase(time);
}

bool EventLoop::Post(Handler fn) {
  bool was_empty = false;
  {
    std::lock_guard lock(posted_mutex_);
    if (stopped() || posted_.size() >= posted_max_) return false;
    was_empty = posted_.empty();
    posted_.push_back(std::move(fn));
  }
  if (was_empty) WakeUp();
  return true;
}

void EventLoop::Stop() {
  stopped_.store(true, std::memory_order_release);
  WakeUp();
}

void EventLoop::WakeUp() {
  const uint64_t one = 1;
  // Fails only when the counter is full, i.e. when the loop is awake anyway.
  [[maybe_unused]] const ssize_t bytes = ::write(wake_fd_.get(), &one, sizeof one);
}

void EventLoop::Run() {
  std::vector<zmq_pollitem_t> items;
  while (!stopped()) {
    std::erase_if(sources_, [](const Source& source) { return source.handler == nullptr; });
    ArmTimer();
    Wait(items);
    RunReadySources(items);
    RunDueTimers();
    RunPosted();
  }
}

void EventLoop::ArmTimer() {
  const Instant next = timers_.empty() ? Instant::max() : timers_.begin()->first;
  if (next == armed_) return;
  itimerspec spec{};  // all zero: disarmed
  if (next != Instant::max()) {
    // An absolute time of zero would disarm; the past fires at once.
    const auto since_boot = std::max<int64_t>(1, next.time_since_epoch().count());
    spec.it_value.tv_sec = since_boot / 1'000'000'000;
    spec.it_value.tv_nsec = since_boot % 1'000'000'000;
  }
  CHECK_EQ(::timerfd_settime(timer_fd_.get(), TFD_TIMER_ABSTIME, &spec, nullptr), 0) << std::strerror(errno);
  armed_ = next;
}

void EventLoop::Wait(std::vector<zmq_pollitem_t>& items) {
  items.clear();
  items.push_back(ItemOfFd(wake_fd_.get()));
  items.push_back(ItemOfFd(timer_fd_.get()));
  for (const Source& source : sources_) {
    items.push_back(ItemOfFd(source.fd));
    items.back().socket = source.zmq_socket;
  }
  if (::zmq_poll(items.data(), static_cast<int>(items.size()), -1) < 0) {
    CHECK_EQ(zmq_errno(), EINTR) << "a socket was closed before it was removed from its loop: "
                                 << zmq_strerror(zmq_errno());
    for (zmq_pollitem_t& item : items) item.revents = 0;
  }
}

void EventLoop::RunReadySources(const std::vector<zmq_pollitem_t>& items) {
  if (items[kWakeItem].revents != 0) Drain(wake_fd_.get());
  if (items[kTimerItem].revents != 0) {
    Drain(timer_fd_.get());
    armed_ = Instant::max();
  }
  // Handlers may append sources (not in `items` yet) and clear handlers; indices stay.
  for (size_t i = kFirstSourceItem; i < items.size(); ++i) {
    if (items[i].revents == 0) continue;
    const std::shared_ptr<Handler> handler = sources_[i - kFirstSourceItem].handler;
    if (handler != nullptr) (*handler)();
  }
}

void EventLoop::RunDueTimers() {
  if (timers_.empty()) return;
  const Instant now = MonotonicNow();
  // Those due now, fixed before any runs: a handler that sets a timer for the past waits for its next turn.
  std::vector<TimerId> due;
  for (auto it = timers_.begin(); it != timers_.end() && it->first <= now; ++it) due.push_back(it->second.id);
  for (const TimerId id : due) {
    const auto time = timer_times_.find(id);
    if (time == timer_times_.end()) continue;  // cancelled by an earlier handler of this turn
    const auto [begin, end] = timers_.equal_range(time->second);
    const auto entry = std::find_if(begin, end, [&](const auto& item) { return item.second.id == id; });
    const Timer timer = entry->second;
    timers_.erase(entry);
    if (timer.period > Duration::zero()) {
      const Instant planned = time->second + timer.period;
      time->second = planned > now ? planned : now + timer.period;
      timers_.emplace(time->second, timer);
    } else {
      timer_times_.erase(time);
    }
    (*timer.handler)();
  }
}

void EventLoop::RunPosted() {
  std::vector<Handler> batch;
  {
    std::lock_guard lock(posted_mutex_);
    batch.swap(posted_);
  }
  for (Handler& fn : batch) fn();
}

void NameThisThread(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
}

LoopThread::LoopThread(std::string name, size_t posted_max)
    : loop_(std::make_unique<EventLoop>(posted_max)), thread_([this, name = std::move(name)] {
        NameThisThread(name);
        loop_->Run();
      }) {}

LoopThread::~LoopThread() {
  loop_->Stop();
  thread_.join();
}

void LoopThread::RunAndWait(const EventLoop::Handler& fn) {
  std::promise<void> done;
  CHECK(loop_->Post([&] {
    fn();
    done.set_value();
  })) << "the loop is full or stopped";
  done.get_future().wait();
}

}  // namespace paceline
