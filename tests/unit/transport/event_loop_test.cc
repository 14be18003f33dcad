// The loop: order, timers, posts from other threads, handlers that change the loop, signals, idleness.
#include "common/actor/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/actor/signals.h"

namespace paceline::testing {
namespace {

using ::testing::ElementsAre;

struct Pipe {
  Pipe() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    read.Reset(fds[0]);
    write.Reset(fds[1]);
  }
  void Put() { EXPECT_EQ(::write(write.get(), "x", 1), 1); }
  bool Take() {
    char c = 0;
    return ::read(read.get(), &c, 1) == 1;
  }
  UniqueFd read;
  UniqueFd write;
};

TEST(EventLoop, RunsTimersInOrderOfTime) {
  EventLoop loop;
  std::vector<int> order;
  loop.After(30ms, [&] { order.push_back(3); });
  loop.After(10ms, [&] { order.push_back(1); });
  loop.After(20ms, [&] { order.push_back(2); });
  loop.After(40ms, [&] { loop.Stop(); });

  loop.Run();

  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(EventLoop, TimersNeverRunEarly) {
  EventLoop loop;
  Instant ran;
  const Instant when = MonotonicNow() + 1500us;
  loop.At(when, [&] {
    ran = MonotonicNow();
    loop.Stop();
  });

  loop.Run();

  EXPECT_GE(ran, when);
  EXPECT_LT(ToSeconds(ran - when), 2.0);
}

TEST(EventLoop, ACancelledTimerDoesNotRun) {
  EventLoop loop;
  bool ran = false;
  const auto timer = loop.After(5ms, [&] { ran = true; });
  const auto other = loop.After(5ms, [] {});
  loop.After(20ms, [&] { loop.Stop(); });
  loop.Cancel(timer);
  loop.Cancel(timer);

  loop.Run();
  loop.Cancel(other);  // has fired

  EXPECT_FALSE(ran);
}

TEST(EventLoop, APeriodicTimerRunsUntilItCancelsItself) {
  EventLoop loop;
  int runs = 0;
  EventLoop::TimerId timer;
  timer = loop.Every(2ms, [&] {
    if (++runs == 5) {
      loop.Cancel(timer);
      loop.After(20ms, [&] { loop.Stop(); });
    }
  });

  loop.Run();

  EXPECT_EQ(runs, 5);
}

TEST(EventLoop, ATimerForThePastRunsOnceAndOthersGetTheirTurn) {
  EventLoop loop;
  int runs = 0;
  std::function<void()> again = [&] {
    if (++runs < 1000) loop.At(Instant::min(), again);
  };
  loop.At(Instant::min(), again);
  loop.After(1ms, [&] { loop.After(50ms, [&] { loop.Stop(); }); });

  loop.Run();

  EXPECT_EQ(runs, 1000);
}

TEST(EventLoop, PostsFromManyThreadsAllRunOnTheLoopsThread) {
  LoopThread thread("test-loop");
  const std::thread::id here = std::this_thread::get_id();
  int runs = 0;
  std::vector<std::thread> posters;
  for (int i = 0; i < 4; ++i) {
    posters.emplace_back([&] {
      for (int post = 0; post < 1000; ++post) {
        ASSERT_TRUE(thread.loop().Post([&] {
          EXPECT_NE(std::this_thread::get_id(), here);
          ++runs;  // no lock: one thread
        }));
      }
    });
  }
  for (std::thread& poster : posters) poster.join();

  int seen = 0;
  thread.RunAndWait([&] { seen = runs; });

  EXPECT_EQ(seen, 4000);
}

TEST(EventLoop, PostAnswersFalseWhenFullAndAfterStop) {
  EventLoop loop(/*posted_max=*/2);
  EXPECT_TRUE(loop.Post([] {}));
  EXPECT_TRUE(loop.Post([&] { loop.Stop(); }));
  EXPECT_FALSE(loop.Post([] { FAIL() << "was dropped"; }));

  loop.Run();

  EXPECT_FALSE(loop.Post([] {}));
}

TEST(EventLoop, AReadableDescriptorIsServedUntilItIsEmpty) {
  EventLoop loop;
  Pipe pipe;
  int taken = 0;
  for (int i = 0; i < 3; ++i) pipe.Put();
  loop.AddFd(pipe.read.get(), [&] {
    if (pipe.Take() && ++taken == 3) loop.Stop();
  });

  loop.Run();

  EXPECT_EQ(taken, 3);
}

TEST(EventLoop, HandlersMayRemoveThemselvesAndOthersAndAddNewOnes) {
  EventLoop loop;
  Pipe first;
  Pipe second;
  Pipe third;
  std::vector<int> order;
  first.Put();
  second.Put();
  third.Put();
  loop.AddFd(first.read.get(), [&] {
    order.push_back(1);
    loop.RemoveFd(first.read.get());
    loop.RemoveFd(second.read.get());
    loop.AddFd(third.read.get(), [&] {
      order.push_back(3);
      loop.Stop();
    });
  });
  loop.AddFd(second.read.get(), [&] { order.push_back(2); });

  loop.Run();

  EXPECT_THAT(order, ElementsAre(1, 3));
}

TEST(EventLoop, SleepsWhenThereIsNothingToDo) {
  EventLoop loop;
  Pipe quiet;
  loop.AddFd(quiet.read.get(), [] {});
  loop.After(300ms, [&] { loop.Stop(); });
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_THREAD, &before);

  loop.Run();

  ::getrusage(RUSAGE_THREAD, &after);
  EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, 20) << "wakes up in vain";
  const auto micros = [](const rusage& use) { return use.ru_utime.tv_sec * 1000000 + use.ru_utime.tv_usec; };
  EXPECT_LT(micros(after) - micros(before), 100000);
}

TEST(EventLoop, SignalsArriveAsHandlerCalls) {
  BlockSignals({SIGUSR1});
  EventLoop loop;
  std::vector<int> signals;
  std::unique_ptr<SignalWatch> watch;
  auto created = SignalWatch::Create(loop, {SIGUSR1}, [&](int signal) {
    signals.push_back(signal);
    watch.reset();  // a handler may end its own watch
    loop.Stop();
  });
  ASSERT_TRUE(created.ok()) << created.status();
  watch = std::move(created).value();

  ::pthread_kill(::pthread_self(), SIGUSR1);
  loop.Run();

  EXPECT_THAT(signals, ElementsAre(SIGUSR1));
}

TEST(LoopThread, IsNamed) {
  LoopThread thread("a-long-name-that-is-cut");
  char name[32] = {};

  thread.RunAndWait([&] { ::pthread_getname_np(::pthread_self(), name, sizeof name); });

  EXPECT_STREQ(name, "a-long-name-tha");
}

}  // namespace
}  // namespace paceline::testing
