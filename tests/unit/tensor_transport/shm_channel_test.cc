// What only shared memory has: two processes, lost wake-ups, and a peer that scribbles on the counters.
#include "common/tensor_transport/shm_channel.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/unit/tensor_transport/edge_fixture.h"

namespace paceline::testing {
namespace {

using absl::StatusCode;
constexpr TensorLimits kLimits{
    .header_bytes_max = 4096, .payload_bytes_max = 64 << 20, .ring_bytes = 64 << 10};

struct Ends {
  ShmLink sender;
  ShmLink receiver;
};

// Both ends of a link without a listener; with `lose_wake_ups` nobody ever sees the other's eventfd.
Ends MakeEnds(bool lose_wake_ups) {
  Ends ends;
  int sockets[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  ends.sender.socket.Reset(sockets[0]);
  ends.receiver.socket.Reset(sockets[1]);
  ends.receiver.ring = ShmRing::Create(kLimits).value();
  ends.sender.ring = ShmRing::Map(UniqueFd(::dup(ends.receiver.ring->fd())), kLimits).value();
  ends.sender.data_ready.Reset(::eventfd(0, EFD_NONBLOCK));
  ends.sender.space_ready.Reset(::eventfd(0, EFD_NONBLOCK));
  const auto peer_of = [&](const UniqueFd& fd) {
    return lose_wake_ups ? ::eventfd(0, EFD_NONBLOCK) : ::dup(fd.get());
  };
  ends.receiver.data_ready.Reset(peer_of(ends.sender.data_ready));
  ends.receiver.space_ready.Reset(peer_of(ends.sender.space_ready));
  return ends;
}

TEST(ShmChannel, B085_EveryWakeUpLostAndYetEveryMessageArrives) {
  Ends ends = MakeEnds(/*lose_wake_ups=*/true);
  auto sender = MakeShmSender(std::move(ends.sender), kLimits);
  auto receiver = MakeShmReceiver(std::move(ends.receiver), kLimits);
  std::thread writer([&] {
    for (uint64_t i = 0; i < 1000; ++i)
      ASSERT_TRUE(sender->Send(Pattern(i, 8), Pattern(i, 2000), In(30s)).ok());
  });

  std::this_thread::sleep_for(200ms);
  for (uint64_t i = 0; i < 1000; ++i) {
    const auto message = receiver->Receive(In(30s));
    ASSERT_TRUE(message.ok()) << i << ": " << message.status();
    ASSERT_EQ(Bytes(message->payload), Pattern(i, 2000)) << i;
  }
  writer.join();
}

TEST(ShmChannel, AnImpossibleCounterIsDataLossAndNotAFault) {
  for (const uint64_t written : {uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 63}) {
    Ends ends = MakeEnds(false);
    ShmControl& control = ends.sender.ring->control();
    auto receiver = MakeShmReceiver(std::move(ends.receiver), kLimits);
    control.header.written.store(written);

    const Status status = receiver->Receive(In(5s)).status();

    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
  }
}

TEST(ShmChannel, ALengthOverTheLimitIsDataLossAndNotAFault) {
  for (const ShmRecord record : {ShmRecord{.header_bytes = ~uint64_t{0}, .payload_bytes = 0},
                                 ShmRecord{.header_bytes = 0, .payload_bytes = ~uint64_t{0}},
                                 ShmRecord{.header_bytes = 4096, .payload_bytes = 0}}) {
    Ends ends = MakeEnds(false);
    ShmLane lane = ends.sender.ring->HeaderLane();
    auto receiver = MakeShmReceiver(std::move(ends.receiver), kLimits);
    lane.CopyIn(0, std::as_bytes(std::span(&record, 1)));
    lane.Publish(sizeof record);

    const Status status = receiver->Receive(In(5s)).status();

    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
  }
}

TEST(ShmChannel, AReaderCounterThatIsImpossibleStopsTheSender) {
  Ends ends = MakeEnds(false);
  ShmControl& control = ends.receiver.ring->control();
  auto sender = MakeShmSender(std::move(ends.sender), kLimits);
  control.payload.read.store(1ull << 50);

  EXPECT_EQ(sender->Send(Pattern(1, 8), Pattern(1, 8), In(5s)).code(), StatusCode::kDataLoss);
}

TEST(ShmRing, MemoryThatCouldShrinkIsRefused) {
  UniqueFd memory(::memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memory.get(), 1 << 20), 0);

  EXPECT_EQ(ShmRing::Map(std::move(memory), kLimits).status().code(), StatusCode::kDataLoss);
}

TEST(ShmRing, ARingOverAllMemoryIsAnErrorWithItsSize) {
  const auto ring =
      ShmRing::Create({.header_bytes_max = 4096, .payload_bytes_max = 1, .ring_bytes = 1ull << 50});

  EXPECT_EQ(ring.status().code(), StatusCode::kInvalidArgument) << ring.status();
}

// Runs `body` in another process and ends it without destructors, as a kill would.
template <typename Body>
pid_t Fork(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  return pid;
}

int WaitForExit(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

TEST(ShmChannelAcrossProcesses, MessagesArriveWholeAndInOrder) {
  TempDir dir;
  auto listener = TensorListener::Listen({.address = "unix:" + dir.File("edge"), .limits = kLimits});
  ASSERT_TRUE(listener.ok());
  const pid_t child = Fork([&] {
    auto sender = ConnectTensor((*listener)->address(), kEdge, In(10s));
    if (!sender.ok()) ::_exit(1);
    for (uint64_t i = 0; i < 2000; ++i) {
      if (!(*sender)->Send(Pattern(i, 40), Pattern(i, (i * 997) % 90000), In(10s)).ok()) ::_exit(2);
    }
  });
  auto receiver = (*listener)->Accept(kEdge, In(10s));
  ASSERT_TRUE(receiver.ok()) << receiver.status();

  for (uint64_t i = 0; i < 2000; ++i) {
    const auto message = (*receiver)->Receive(In(10s));
    ASSERT_TRUE(message.ok()) << i << ": " << message.status();
    ASSERT_TRUE(Bytes(message->payload) == Pattern(i, (i * 997) % 90000)) << i;
  }

  EXPECT_EQ(WaitForExit(child), 0);
  EXPECT_TRUE(dir.IsEmpty());
}

TEST(ShmChannelAcrossProcesses, AKilledSenderIsNoticedAtOnceInTheMiddleOfAMessage) {
  TempDir dir;
  auto listener = TensorListener::Listen({.address = "unix:" + dir.File("edge"), .limits = kLimits});
  ASSERT_TRUE(listener.ok());
  const pid_t child = Fork([&] {
    auto sender = ConnectTensor((*listener)->address(), kEdge, In(10s));
    if (!sender.ok()) ::_exit(1);
    (void)(*sender)->Send(Pattern(1, 8), Pattern(1, 8), In(10s));
    (void)(*sender)->Send(Pattern(2, 8), Pattern(2, 1 << 20), In(60s));  // waits for a reader in its middle
  });
  auto receiver = (*listener)->Accept(kEdge, In(10s));
  ASSERT_TRUE(receiver.ok()) << receiver.status();
  ASSERT_TRUE((*receiver)->Receive(In(10s)).ok());
  std::this_thread::sleep_for(50ms);

  ::kill(child, SIGKILL);
  const Instant begin = MonotonicNow();
  const Status status = (*receiver)->Receive(In(30s)).status();

  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_LT(ToSeconds(MonotonicNow() - begin), 1.0);
  WaitForExit(child);
}

TEST(ShmChannelAcrossProcesses, AStoppedReaderHoldsTheSenderUpToItsDeadlineAndThenGoesOn) {
  TempDir dir;
  auto listener = TensorListener::Listen({.address = "unix:" + dir.File("edge"), .limits = kLimits});
  ASSERT_TRUE(listener.ok());
  const pid_t child = Fork([&] {
    auto receiver = (*listener)->Accept(kEdge, In(10s));
    if (!receiver.ok()) ::_exit(1);
    for (uint64_t i = 0; i < 1000; ++i) {
      auto message = (*receiver)->Receive(In(20s));
      if (!message.ok() || Bytes(message->payload) != Pattern(i, 1000)) ::_exit(2);
    }
  });
  auto sender = ConnectTensor((*listener)->address(), kEdge, In(10s));
  ASSERT_TRUE(sender.ok()) << sender.status();

  ::kill(child, SIGSTOP);
  uint64_t sent = 0;
  bool was_held = false;
  while (sent < 1000) {
    const Status status = (*sender)->Send(Pattern(sent, 8), Pattern(sent, 1000), In(100ms));
    if (status.ok()) {
      ++sent;
      continue;
    }
    ASSERT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
    was_held = true;
    ::kill(child, SIGCONT);
  }

  EXPECT_TRUE(was_held);
  EXPECT_EQ(WaitForExit(child), 0);
}

}  // namespace
}  // namespace paceline::testing
