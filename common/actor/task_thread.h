// TaskThread: one named thread that runs posted work in order, for what may not run on an event loop:
// compute, blocking sends.
//
//   TaskThread compute("compute", 64);
//   compute.Post([&] { auto result = executor.Run(work); loop.Post([&, r = std::move(result)] { ... }); });
//
// Threading: Post from any thread. Limits: `capacity` closures wait at most; Post answers false when they do
// and after Stop. Stop lets the running closure end, drops the waiting ones and joins; the destructor stops.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "common/base/bounded_queue.h"

namespace paceline {

class TaskThread {
 public:
  TaskThread(std::string name, size_t capacity);
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  bool Post(std::function<void()> task) { return tasks_.TryPush(std::move(task)); }
  void Stop();

 private:
  void Run(const std::string& name);

  BoundedQueue<std::function<void()>> tasks_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace paceline
