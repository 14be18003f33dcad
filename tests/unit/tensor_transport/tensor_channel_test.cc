// The promises of tensor_channel.h, the same suite over every maker.
#include <atomic>

#include "tests/unit/tensor_transport/edge_fixture.h"

namespace paceline::testing {
namespace {

using absl::StatusCode;
constexpr TensorLimits kSmallRing{
    .header_bytes_max = 4096, .payload_bytes_max = 256ull << 20, .ring_bytes = 64 << 10};

class TensorChannel : public ::testing::TestWithParam<Maker> {
 protected:
  Edge Make(const TensorLimits& limits = kSmallRing) { return MakeEdge(GetParam(), dir_, limits); }
  TempDir dir_;
};

INSTANTIATE_TEST_SUITE_P(EveryMaker, TensorChannel,
                         ::testing::Values(Maker::kShm, Maker::kTcp, Maker::kInProcess),
                         [](const auto& param) { return NameOf(param.param); });

TEST_P(TensorChannel, DeliversEveryMessageOnceAndInOrder) {
  Edge edge = Make();
  const auto payload_size = [](uint64_t i) { return (i * 7919) % 40000; };
  const auto header_size = [](uint64_t i) { return (i * 31) % 4097; };

  std::thread sender([&] {
    for (uint64_t i = 0; i < 500; ++i) {
      const Status sent =
          edge.sender->Send(Pattern(i, header_size(i)), Pattern(i + 1, payload_size(i)), In(10s));
      ASSERT_TRUE(sent.ok()) << i << ": " << sent;
    }
  });
  for (uint64_t i = 0; i < 500; ++i) {
    const auto message = edge.receiver->Receive(In(10s));
    ASSERT_TRUE(message.ok()) << i << ": " << message.status();
    ASSERT_EQ(message->header, Pattern(i, header_size(i))) << i;
    ASSERT_EQ(Bytes(message->payload), Pattern(i + 1, payload_size(i))) << i;
  }
  sender.join();

  EXPECT_EQ(edge.receiver->Receive(In(1ms)).status().code(), StatusCode::kDeadlineExceeded);
}

TEST_P(TensorChannel, StreamsAPayloadThatIsLargerThanTheRing) {
  Edge edge = Make();
  const auto payload = Pattern(5, (20 << 20) + 13);

  std::thread sender([&] {
    EXPECT_TRUE(edge.sender->Send(Pattern(1, 10), payload, In(20s)).ok());
    EXPECT_TRUE(edge.sender->Send(Pattern(2, 10), Pattern(2, 10), In(20s)).ok());
  });
  const auto first = edge.receiver->Receive(In(20s));
  const auto second = edge.receiver->Receive(In(20s));
  sender.join();

  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_TRUE(Bytes(first->payload) == payload);
  EXPECT_EQ(Bytes(second->payload), Pattern(2, 10));
}

TEST_P(TensorChannel, PayloadsStartAtAMultipleOf64) {
  Edge edge = Make();

  ASSERT_TRUE(edge.sender->Send({}, Pattern(1, 77), In(5s)).ok());
  const auto message = edge.receiver->Receive(In(5s));

  ASSERT_TRUE(message.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(message->payload.data()) % 64, 0u);
}

TEST_P(TensorChannel, WhatAPeerSentBeforeItClosedIsStillDelivered) {
  Edge edge = Make();

  for (uint64_t i = 0; i < 3; ++i)
    ASSERT_TRUE(edge.sender->Send(Pattern(i, 8), Pattern(i, 100), In(5s)).ok());
  edge.sender.reset();

  for (uint64_t i = 0; i < 3; ++i) {
    const auto message = edge.receiver->Receive(In(5s));
    ASSERT_TRUE(message.ok()) << i << ": " << message.status();
    EXPECT_EQ(message->header, Pattern(i, 8));
  }
  EXPECT_EQ(edge.receiver->Receive(In(5s)).status().code(), StatusCode::kUnavailable);
}

TEST_P(TensorChannel, ReceiveWakesAtOnceWhenThePeerGoes) {
  Edge edge = Make();
  std::thread peer([&] {
    std::this_thread::sleep_for(50ms);
    edge.sender.reset();
  });

  const Instant begin = MonotonicNow();
  const Status status = edge.receiver->Receive(In(30s)).status();
  peer.join();

  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_LT(ToSeconds(MonotonicNow() - begin), 5.0);
}

TEST_P(TensorChannel, SendToAPeerThatIsGoneIsUnavailable) {
  Edge edge = Make();
  edge.receiver.reset();

  Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    status = edge.sender->Send(Pattern(1, 8), Pattern(1, 1000), In(5s));
    std::this_thread::sleep_for(1ms);  // TCP learns of it by the answer to the first packet
  }

  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_EQ(edge.sender->Send({}, {}, In(5s)).code(), StatusCode::kUnavailable);
}

TEST_P(TensorChannel, B082_APeerThatStopsInTheMiddleOfAMessageIsAnErrorInsideTheDeadline) {
  if (GetParam() == Maker::kInProcess) GTEST_SKIP() << "an in-process message is handed over whole";
  Edge edge = Make();
  const auto payload = Pattern(1, 64 << 20);  // more than any socket buffer

  const Status sent = edge.sender->Send(Pattern(1, 8), payload, In(200ms));  // nobody reads
  const Status later = edge.sender->Send(Pattern(2, 8), {}, In(200ms));
  const Status received = edge.receiver->Receive(In(10s)).status();

  EXPECT_EQ(sent.code(), StatusCode::kDeadlineExceeded) << sent;
  EXPECT_EQ(later.code(), StatusCode::kUnavailable) << "a begun transfer tears the edge down";
  EXPECT_EQ(received.code(), StatusCode::kUnavailable) << received;
}

TEST_P(TensorChannel, ADeadlineBeforeAnythingLeftKeepsTheEdgeWhole) {
  if (GetParam() == Maker::kTcp) GTEST_SKIP() << "a full TCP buffer takes part of a message";
  Edge edge = Make();
  uint64_t sent = 0;
  Status status;

  while (status.ok()) {
    status = edge.sender->Send(Pattern(sent, 8), Pattern(sent, 10000), In(20ms));
    if (status.ok()) ++sent;
  }
  ASSERT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  ASSERT_GE(sent, 6u);

  for (uint64_t i = 0; i < sent; ++i) {
    const auto message = edge.receiver->Receive(In(5s));
    ASSERT_TRUE(message.ok()) << i << ": " << message.status();
    EXPECT_EQ(message->header, Pattern(i, 8)) << i;
  }
  EXPECT_TRUE(edge.sender->Send(Pattern(99, 8), Pattern(99, 10000), In(5s)).ok());
  EXPECT_EQ(edge.receiver->Receive(In(5s))->header, Pattern(99, 8));
}

TEST_P(TensorChannel, NoneYetLosesNoPartOfAMessage) {
  Edge edge = Make();
  const auto payload = Pattern(3, 8 << 20);
  std::thread sender([&] { EXPECT_TRUE(edge.sender->Send(Pattern(3, 8), payload, In(20s)).ok()); });

  StatusOr<TensorMessage> message = DeadlineExceededError("none yet");
  int tries = 0;
  while (message.status().code() == StatusCode::kDeadlineExceeded) {
    message = edge.receiver->Receive(In(50us));
    ++tries;
  }
  sender.join();

  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_TRUE(Bytes(message->payload) == payload) << "after " << tries << " calls";
}

TEST_P(TensorChannel, CloseFromAnotherThreadWakesReceive) {
  Edge edge = Make();
  std::thread closer([&] {
    std::this_thread::sleep_for(50ms);
    edge.receiver->Close();
  });

  const Instant begin = MonotonicNow();
  const Status status = edge.receiver->Receive(In(30s)).status();
  closer.join();

  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_LT(ToSeconds(MonotonicNow() - begin), 5.0);
  EXPECT_EQ(edge.receiver->Receive(In(30s)).status().code(), StatusCode::kUnavailable);
}

TEST_P(TensorChannel, CloseFromAnotherThreadWakesSend) {
  Edge edge = Make();
  std::thread closer([&] {
    std::this_thread::sleep_for(50ms);
    edge.sender->Close();
  });

  const Instant begin = MonotonicNow();
  Status status;
  while (status.ok()) status = edge.sender->Send(Pattern(1, 8), Pattern(1, 60000), In(30s));
  closer.join();

  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_LT(ToSeconds(MonotonicNow() - begin), 5.0);
}

TEST_P(TensorChannel, AMessageOverTheLimitIsRefusedAndTheEdgeGoesOn) {
  Edge edge = Make({.header_bytes_max = 100, .payload_bytes_max = 1000, .ring_bytes = 4096});

  EXPECT_TRUE(edge.sender->Send(Pattern(1, 100), Pattern(1, 1000), In(5s)).ok());
  EXPECT_EQ(edge.sender->Send(Pattern(2, 101), {}, In(5s)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(edge.sender->Send({}, Pattern(2, 1001), In(5s)).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(edge.sender->Send(Pattern(3, 1), Pattern(3, 1), In(5s)).ok());

  EXPECT_EQ(edge.receiver->Receive(In(5s))->header, Pattern(1, 100));
  EXPECT_EQ(edge.receiver->Receive(In(5s))->header, Pattern(3, 1));
}

TEST_P(TensorChannel, B085_NothingIsLostWhenTheReaderStopsDuringABurst) {
  Edge edge = Make();
  std::thread sender([&] {
    for (uint64_t i = 0; i < 1000; ++i) {
      ASSERT_TRUE(edge.sender->Send(Pattern(i, 8), Pattern(i, 1000 + i), In(20s)).ok()) << i;
    }
  });

  std::this_thread::sleep_for(500ms);
  for (uint64_t i = 0; i < 1000; ++i) {
    const auto message = edge.receiver->Receive(In(20s));
    ASSERT_TRUE(message.ok()) << i << ": " << message.status();
    ASSERT_EQ(Bytes(message->payload), Pattern(i, 1000 + i)) << i;
  }
  sender.join();
}

// A ring of workers: each takes a message from the one before it and hands it to the next, a thousand times.
TEST_P(TensorChannel, B191_AThousandLoopsFinishWithAnyNumberOfWorkers) {
  for (const size_t num_workers : {2u, 3u, 5u, 8u}) {
    const int loops = num_workers == 3 ? 1000 : 200;
    std::vector<Edge> edges;  // edge i: worker i -> worker (i + 1) % num_workers
    for (size_t i = 0; i < num_workers; ++i) {
      edges.push_back(MakeEdge(GetParam(), dir_, kSmallRing, "edge" + std::to_string(i)));
    }
    std::atomic<int> finished{0};
    std::vector<std::thread> workers;
    for (size_t i = 1; i < num_workers; ++i) {
      workers.emplace_back([&, i] {
        for (int loop = 0; loop < loops; ++loop) {
          auto message = edges[i - 1].receiver->Receive(In(20s));
          ASSERT_TRUE(message.ok()) << message.status();
          ASSERT_TRUE(edges[i].sender->Send(message->header, message->payload.span(), In(20s)).ok());
        }
        ++finished;
      });
    }
    for (int loop = 0; loop < loops; ++loop) {
      const auto payload = Pattern(static_cast<uint64_t>(loop), 3000);
      ASSERT_TRUE(edges[0].sender->Send(Pattern(1, 64), payload, In(20s)).ok());
      const auto message = edges[num_workers - 1].receiver->Receive(In(20s));
      ASSERT_TRUE(message.ok()) << message.status();
      ASSERT_EQ(Bytes(message->payload), payload);
    }
    for (std::thread& worker : workers) worker.join();
    EXPECT_EQ(finished, static_cast<int>(num_workers) - 1);
  }
}

}  // namespace
}  // namespace paceline::testing
