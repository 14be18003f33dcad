#include "common/base/bounded_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace paceline {
namespace {

TEST(BoundedQueue, AnswersFullAndKeepsOrder) {
  BoundedQueue<int> queue(2);

  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_FALSE(queue.TryPush(3));
  EXPECT_EQ(queue.TryPop(), 1);
  EXPECT_EQ(queue.TryPop(), 2);
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(BoundedQueue, PushGivesUpAtItsDeadline) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.TryPush(1));

  const Instant before = MonotonicNow();
  EXPECT_FALSE(queue.Push(2, before + 20ms));
  EXPECT_GE(MonotonicNow() - before, 20ms);
}

TEST(BoundedQueue, CloseDrainsWhatIsLeftAndWakesWaiters) {
  BoundedQueue<int> queue(4);
  ASSERT_TRUE(queue.TryPush(7));
  std::thread waiter([&] {
    EXPECT_EQ(queue.Pop(MonotonicNow() + 10s), 7);
    EXPECT_EQ(queue.Pop(MonotonicNow() + 10s), std::nullopt);
  });

  queue.Close();

  waiter.join();
  EXPECT_FALSE(queue.TryPush(8));
}

}  // namespace
}  // namespace paceline
