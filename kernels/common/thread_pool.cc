#include "kernels/common/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <string>

#include "common/base/check.h"

namespace paceline::kernels {
namespace {

// About 20 microseconds: longer than the gap between two operations of a layer, shorter than anything an
// operator would see as a busy core.
constexpr int kSpinPauses = 400;
// Tasks per thread: enough to even out a thread that the operating system interrupts.
constexpr size_t kTasksPerThread = 4;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  CHECK_GE(num_threads, 1);
  for (int i = 1; i < num_threads; ++i) {
    workers_.emplace_back([this] { WorkerLoop(); });
    const std::string name = "kernels-" + std::to_string(i);
    pthread_setname_np(workers_.back().native_handle(), name.c_str());
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(size_t num_tasks, TaskFn fn) {
  if (workers_.empty() || num_tasks <= 1) {
    for (size_t task = 0; task < num_tasks; ++task) fn(task);
    return;
  }
  fn_ = &fn;
  num_tasks_ = num_tasks;
  finished_.store(0, std::memory_order_relaxed);
  unclaimed_.store(num_tasks, std::memory_order_seq_cst);
  // Sequentially consistent on both sides: either we see the sleeper, or it sees our tasks before it sleeps.
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  RunTasks();
  for (int spins = 0; finished_.load(std::memory_order_acquire) != num_tasks; ++spins) {
    if (spins < kSpinPauses) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::RunTasks() {
  size_t left = unclaimed_.load(std::memory_order_relaxed);
  while (left > 0) {
    if (!unclaimed_.compare_exchange_weak(left, left - 1, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      continue;
    }
    (*fn_)(num_tasks_ - left);
    finished_.fetch_add(1, std::memory_order_release);
    left = unclaimed_.load(std::memory_order_relaxed);
  }
}

void ThreadPool::WorkerLoop() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    RunTasks();
    int spins = 0;
    while (!HasTasks() && spins < kSpinPauses) {
      Pause();
      ++spins;
    }
    if (spins == kSpinPauses) Sleep();
  }
}

void ThreadPool::Sleep() {
  std::unique_lock<std::mutex> lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  wake_.wait(lock, [this] { return HasTasks() || stopping_.load(std::memory_order_relaxed); });
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

size_t TaskSplit::MaxTasks(int num_threads) {
  return num_threads == 1 ? 1 : static_cast<size_t>(num_threads) * kTasksPerThread;
}

TaskSplit::TaskSplit(size_t num_items, size_t min_items, int num_threads)
    : num_items_(num_items),
      num_tasks_(std::clamp<size_t>(num_items / std::max<size_t>(min_items, 1), 1, MaxTasks(num_threads))) {}

}  // namespace paceline::kernels
