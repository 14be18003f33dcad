#include "kernels/common/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace paceline::kernels {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolTest, ::testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolTest, RunsEveryTaskExactlyOnce) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.num_threads(), GetParam());

  for (size_t num_tasks : {0, 1, 2, 7, 100}) {
    std::vector<std::atomic<int>> runs(num_tasks);
    pool.ParallelFor(num_tasks, [&](size_t task) { runs[task].fetch_add(1); });

    for (size_t task = 0; task < num_tasks; ++task) EXPECT_EQ(runs[task].load(), 1) << "task " << task;
  }
}

// Back-to-back rounds of changing size: a worker that comes late from one round must never run its function
// again or see the next round's half-written fields. A sum is enough to notice either.
TEST_P(ThreadPoolTest, KeepsRoundsApart) {
  ThreadPool pool(GetParam());
  for (size_t round = 0; round < 3000; ++round) {
    std::atomic<size_t> sum{0};
    const size_t num_tasks = 1 + round % 5;

    pool.ParallelFor(num_tasks, [&](size_t task) { sum.fetch_add(round + task); });

    ASSERT_EQ(sum.load(), num_tasks * round + num_tasks * (num_tasks - 1) / 2) << "round " << round;
  }
}

TEST_P(ThreadPoolTest, WakesWorkersThatWentToSleep) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far longer than workers spin
    std::atomic<int> waiting{GetParam()};

    // Every task waits for all the others, so this ends only when each thread has taken one.
    pool.ParallelFor(static_cast<size_t>(GetParam()), [&](size_t) {
      waiting.fetch_sub(1);
      while (waiting.load() > 0) std::this_thread::yield();
    });

    EXPECT_EQ(waiting.load(), 0);
  }
}

TEST(TaskSplit, CoversAllItemsWithoutOverlap) {
  for (size_t num_items : {1, 2, 16, 17, 1000}) {
    for (size_t min_items : {0, 1, 3, 5000}) {
      for (int num_threads : {1, 2, 5}) {
        const TaskSplit split(num_items, min_items, num_threads);

        EXPECT_LE(split.num_tasks(), TaskSplit::MaxTasks(num_threads));
        EXPECT_EQ(split.begin(0), 0u);
        EXPECT_EQ(split.end(split.num_tasks() - 1), num_items);
        for (size_t task = 0; task < split.num_tasks(); ++task) {
          EXPECT_LT(split.begin(task), split.end(task));
          if (split.num_tasks() > 1) {
            EXPECT_GE(split.end(task) - split.begin(task), min_items);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::kernels
