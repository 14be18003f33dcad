// A fixed set of worker threads that split the tasks of one operation.
//
// Owner: one per worker process (its `--threads`). One thread at a time may call ParallelFor; it takes part
// itself, so a pool of size 1 has no threads and runs everything inline. Which thread runs which task is
// unspecified: a task must write only its own outputs, then results do not depend on the pool's size.
//
// ParallelFor returns when every task has finished; it does not wait for workers that came too late to find
// one, so a worker that the operating system keeps away costs nothing but its share. It does not allocate and
// takes no lock while workers are awake: idle workers spin for some microseconds (layers follow one another
// closely), then sleep.
//
//   ThreadPool pool(2);
//   pool.ParallelFor(num_tiles, [&](size_t tile) { Compute(tile); });
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
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

  void WorkerLoop();
  void RunTasks();
  bool HasTasks() const { return unclaimed_.load(std::memory_order_seq_cst) > 0; }
  void Sleep();

  // fn_ and num_tasks_ are written by the caller before it raises unclaimed_, and read only by a thread that
  // has claimed a task: until that task is finished the caller cannot return, so they stay what they were.
  const TaskFn* fn_ = nullptr;
  size_t num_tasks_ = 0;
  alignas(64) std::atomic<size_t> unclaimed_{0};
  alignas(64) std::atomic<size_t> finished_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // only for sleeping and waking
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

// Cuts `num_items` into tasks so that threads can balance without paying for tiny ones; task t has the items
// [begin(t), end(t)).
class TaskSplit {
 public:
  // The most tasks any split makes, for sizing a buffer per task.
  static size_t MaxTasks(int num_threads);

  // No task gets fewer than `min_items` items (but the last).
  TaskSplit(size_t num_items, size_t min_items, int num_threads);

  size_t num_tasks() const { return num_tasks_; }
  size_t begin(size_t task) const { return num_items_ * task / num_tasks_; }
  size_t end(size_t task) const { return begin(task + 1); }

 private:
  size_t num_items_;
  size_t num_tasks_;
};

}  // namespace paceline::kernels
