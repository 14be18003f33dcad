#include "coordinator/api/door_pool.h"

#include <pthread.h>

#include <algorithm>
#include <optional>

#include "common/base/status.h"

namespace paceline {

DoorPool::DoorPool(uint32_t num_threads, size_t capacity) : queue_(capacity) {
  for (uint32_t i = 0; i < std::max(num_threads, 1u); ++i) {
    threads_.emplace_back([this] { Run(); });
    pthread_setname_np(threads_.back().native_handle(), fmt::format("api-door-{}", i).substr(0, 15).c_str());
  }
}

void DoorPool::Stop() {
  queue_.Close();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void DoorPool::Run() {
  while (true) {
    std::optional<std::function<void()>> job = queue_.Pop(MonotonicNow() + 1h);
    if (job) {
      (*job)();
    } else if (queue_.closed()) {
      return;
    }
  }
}

}  // namespace paceline
