#include "common/actor/task_thread.h"

#include "common/actor/event_loop.h"

namespace paceline {

TaskThread::TaskThread(std::string name, size_t capacity)
    : tasks_(capacity), thread_([this, name = std::move(name)] { Run(name); }) {}

TaskThread::~TaskThread() { Stop(); }

void TaskThread::Stop() {
  stopping_.store(true, std::memory_order_release);
  tasks_.Close();
  if (thread_.joinable()) thread_.join();
}

void TaskThread::Run(const std::string& name) {
  NameThisThread(name);
  while (auto task = tasks_.Pop(Instant::max())) {
    if (stopping_.load(std::memory_order_acquire)) return;
    (*task)();
  }
}

}  // namespace paceline
