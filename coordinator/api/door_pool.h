// DoorPool: the threads that parse and tokenize, so that the I/O thread never waits for a large body.
//
// Any thread may Add. Limits: `capacity` jobs waiting; Add answers false when full. Failure: after Stop jobs
// are dropped. Jobs do not block.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"

namespace paceline {

class DoorPool {
 public:
  DoorPool(uint32_t num_threads, size_t capacity);
  ~DoorPool() { Stop(); }

  bool Add(std::function<void()> job) { return queue_.TryPush(std::move(job)); }
  void Stop();

 private:
  void Run();

  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace paceline
