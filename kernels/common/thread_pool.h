// A fixed set of worker threads that split the tasks of one operation.
//
// Owner: one per worker process (its `--threads`). One thread at a time may call ParallelFor; it takes part
// itself, so a pool of size 1 has no threads and runs everything inline. Which thread runs which task is
// unspecified: a task must write only its own outputs, then results do not depend on the pool's size.
//
// ParallelFor returns when every task has finished. It does not allocate and takes no lock while workers are
// awake: idle workers spin for some microseconds (layers follow one another closely), then sleep.
//
//   ThreadPool pool(2);
//   pool.ParallelFor(num_tiles, [&](size_t tile) { Compute(tile); });
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace paceline::kernels {

class ThreadPool {
 public:
  // `num_threads` counts the caller; at least 1. Threads are named "kernels-N".
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(0) .. fn(num_tasks - 1), each once, on the caller and the workers; fn must not throw and must
  // not call ParallelFor of the same pool.
  void ParallelFor(size_t num_tasks, absl::FunctionRef<void(size_t)> fn);

 private:
  using TaskFn = absl::FunctionRef<void(size_t)>;

  void WorkerLoop(int worker_index);
  uint64_t AwaitNextRound(uint64_t round_seen);
  void RunTasks();

  // A round is one ParallelFor. The caller fills the fields, then publishes by raising round_.
  const TaskFn* fn_ = nullptr;
  size_t num_tasks_ = 0;
  std::atomic<size_t> next_task_{0};
  std::atomic<uint64_t> round_{0};
  std::atomic<int> workers_busy_{0};  // workers that have not yet left the current round
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // only for sleeping and waking
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace paceline::kernels
