// The published logs over real sockets: slow joiners, lost messages, re-requests, strangers.
#include "common/transport/published_log.h"

#include <gmock/gmock.h>
#include <zmq.h>

#include <map>

#include "common/transport/codec.h"
#include "common/transport/endpoint.h"
#include "tests/unit/transport/loop_fixture.h"

namespace paceline::testing {
namespace {

using absl::StatusCode;
constexpr Generation kGeneration{.coordinator_nonce = 9, .counter = 2};
constexpr Incarnation kIncarnation{7};

Verdict VerdictOf(uint64_t step) {
  Verdict verdict;
  verdict.generation = kGeneration;
  verdict.step = StepId(step);
  verdict.incarnation = kIncarnation;
  verdict.log_sequence = step;
  return verdict;
}

// A publisher whose "core" is a map of verdicts.
struct Publisher {
  explicit Publisher(const TempDir& dir, int queue = 4096)
      : fabric(Fabric::Create().value()), loop("publisher"), log(loop, [&] {
          return LogPublisher::Bind(
              *fabric, loop.loop(),
              {.publish_endpoint = NewIpcEndpoint(dir.path(), "log").value(),
               .replay_endpoint = NewIpcEndpoint(dir.path(), "replay").value(),
               .queue_messages_max = queue},
              {.on_replay_request = [this](uint64_t peer, const ReplayRequest& request) {
                OnRequest(peer, request);
              }});
        }) {
    log.Do([&](LogPublisher& publisher) {
      socket = &publisher;
      source = {.incarnation = kIncarnation,
                .publish = publisher.publish_endpoint(),
                .replay = publisher.replay_endpoint()};
    });
  }
  void OnRequest(uint64_t peer, const ReplayRequest& request) {
    const auto found = ring.find(request.step);
    if (found != ring.end()) return socket->Answer(peer, found->second);
    socket->Answer(peer, ReplayAnswer{.generation = request.generation,
                                      .step = request.step,
                                      .incarnation = kIncarnation,
                                      .state = ReplayState::kNotYet});
  }
  void Publish(const WireMessage& message) {
    log.Do([&](LogPublisher& publisher) { EXPECT_TRUE(publisher.Publish(message).ok()); });
  }

  std::map<StepId, Verdict> ring;  // of the publisher's loop
  LogPublisher* socket = nullptr;
  LogSource source;
  std::unique_ptr<Fabric> fabric;
  LoopThread loop;
  OnLoop<LogPublisher> log;
};

struct Subscriber {
  explicit Subscriber(const LogSource& source)
      : fabric(Fabric::Create().value()), loop("subscriber"), log(loop, [&] {
          return LogSubscriber::Connect(
              *fabric, loop.loop(), {.source = source},
              {.on_message = [this](WireMessage message) { OnMessage(std::move(message)); }});
        }) {}
  Status Request(uint64_t step) {
    Status status;
    log.Do([&](LogSubscriber& subscriber) {
      status = subscriber.RequestReplay({.generation = kGeneration, .step = StepId(step)});
    });
    return status;
  }
  template <typename Kind>
  size_t Count() const {
    size_t count = 0;
    for (const WireMessage& message : received.All()) count += std::holds_alternative<Kind>(message) ? 1 : 0;
    return count;
  }
  // As a generation starts: probes until one arrives.
  bool WaitForProbe(Publisher& publisher) {
    return Eventually([&] {
      publisher.Publish(Probe{.generation = kGeneration, .incarnation = kIncarnation});
      return Count<Probe>() > 0;
    });
  }

  void OnMessage(WireMessage message) {
    if (const Verdict* verdict = std::get_if<Verdict>(&message)) verdict_steps.Add(verdict->step.value());
    received.Add(std::move(message));
  }

  Seen<WireMessage> received;
  Seen<uint64_t> verdict_steps;  // also in `received`
  std::unique_ptr<Fabric> fabric;
  LoopThread loop;
  OnLoop<LogSubscriber> log;
};

TEST(PublishedLog, EverySubscriberGetsEveryMessageInOrder) {
  TempDir dir;
  Publisher publisher(dir);
  Subscriber first(publisher.source);
  Subscriber second(publisher.source);
  ASSERT_TRUE(first.WaitForProbe(publisher) && second.WaitForProbe(publisher));

  for (uint64_t step = 1; step <= 300; ++step) publisher.Publish(VerdictOf(step));

  for (Subscriber* subscriber : {&first, &second}) {
    ASSERT_TRUE(Eventually([&] { return subscriber->Count<Verdict>() == 300; }));
    uint64_t next = 1;
    for (const WireMessage& message : subscriber->received.All()) {
      if (const Verdict* verdict = std::get_if<Verdict>(&message)) {
        EXPECT_EQ(verdict->step, StepId(next++));
      }
    }
  }
}

TEST(PublishedLog, B188_WhatWasPublishedBeforeTheSubscriberJoinedIsGotByAskingAndAProbeSaysWhenItListens) {
  TempDir dir;
  Publisher publisher(dir);
  const Verdict verdict = VerdictOf(1);
  publisher.log.Do([&](LogPublisher&) { publisher.ring[verdict.step] = verdict; });
  publisher.Publish(verdict);  // right after the bind: nobody listens
  Subscriber subscriber(publisher.source);

  ASSERT_TRUE(subscriber.WaitForProbe(publisher));
  EXPECT_EQ(subscriber.Count<Verdict>(), 0u) << "PUB keeps nothing for a slow joiner";
  ASSERT_TRUE(Eventually([&] { return subscriber.Request(1).ok(); }));

  ASSERT_TRUE(Eventually([&] { return subscriber.Count<Verdict>() == 1; }));
  EXPECT_EQ(std::get<Verdict>(subscriber.received.All().back()), verdict);
}

TEST(PublishedLog, AMessageThatPubDroppedIsRecoveredByAskingOnATimer) {
  TempDir dir;
  Publisher publisher(dir, /*queue=*/1);
  Subscriber subscriber(publisher.source);
  ASSERT_TRUE(subscriber.WaitForProbe(publisher));
  // The subscriber stops reading; what does not fit into its queues is dropped without a word.
  std::mutex gate;
  gate.lock();
  ASSERT_TRUE(subscriber.loop.loop().Post([&] { const std::lock_guard wait(gate); }));
  constexpr uint64_t kSteps = 60;
  for (uint64_t step = 1; step <= kSteps; ++step) {
    Verdict verdict = VerdictOf(step);
    verdict.sequences.push_back({.sequence = SequenceId(1), .lineage = {}, .ids = {}, .logprobs = {}});
    verdict.sequences[0].ids.assign(50000, 5);  // 200 KB: socket buffers do not hide the loss
    publisher.log.Do([&](LogPublisher&) { publisher.ring[verdict.step] = verdict; });
    publisher.Publish(verdict);
  }
  gate.unlock();

  const auto missing = [&] {
    std::vector<bool> have(kSteps + 1, false);
    for (const uint64_t step : subscriber.verdict_steps.All()) have[step] = true;
    std::vector<uint64_t> steps;
    for (uint64_t step = 1; step <= kSteps; ++step) {
      if (!have[step]) steps.push_back(step);
    }
    return steps;
  };
  std::this_thread::sleep_for(50ms);
  const size_t lost = missing().size();
  ASSERT_TRUE(Eventually([&] {
    const auto steps = missing();
    for (size_t i = 0; i < std::min<size_t>(steps.size(), 4); ++i) (void)subscriber.Request(steps[i]);
    std::this_thread::sleep_for(5ms);
    return steps.empty();
  }));
  EXPECT_GT(lost, 0u) << "the test must have lost some";
}

TEST(PublishedLog, AStepThatIsNotThereIsAnsweredNotYet) {
  TempDir dir;
  Publisher publisher(dir);
  Subscriber subscriber(publisher.source);

  ASSERT_TRUE(Eventually([&] { return subscriber.Request(5).ok(); }));

  ASSERT_TRUE(Eventually([&] { return subscriber.Count<ReplayAnswer>() == 1; }));
  const auto answer = std::get<ReplayAnswer>(subscriber.received.All()[0]);
  EXPECT_EQ(answer.step, StepId(5));
  EXPECT_EQ(answer.generation, kGeneration);
  EXPECT_EQ(answer.state, ReplayState::kNotYet);
}

TEST(PublishedLog, AskingAPublisherThatIsNotThereIsUnavailable) {
  TempDir dir;
  Subscriber subscriber({.incarnation = kIncarnation,
                         .publish = NewIpcEndpoint(dir.path(), "nobody").value(),
                         .replay = NewIpcEndpoint(dir.path(), "nobody2").value()});

  EXPECT_EQ(subscriber.Request(1).code(), StatusCode::kUnavailable);
}

TEST(PublishedLog, AnswersToAnAskerThatLeftAreDropped) {
  TempDir dir;
  Publisher publisher(dir);

  publisher.log.Do([](LogPublisher& log) { log.Answer(12345, VerdictOf(1)); });

  Subscriber subscriber(publisher.source);
  EXPECT_TRUE(subscriber.WaitForProbe(publisher)) << "the publisher goes on";
}

TEST(PublishedLog, NoiseAndWrongKindsOnTheReplayPortAreCounted) {
  TempDir dir;
  Publisher publisher(dir);
  void* context = ::zmq_ctx_new();
  void* stranger = ::zmq_socket(context, ZMQ_DEALER);
  ASSERT_EQ(::zmq_connect(stranger, publisher.source.replay.c_str()), 0);
  const std::string noise = "what is this";
  const auto wrong = Encode(Goodbye{});
  const auto count = [&](RejectReason reason) { return publisher.fabric->rejected().Count(reason); };

  ::zmq_send(stranger, noise.data(), noise.size(), 0);
  ::zmq_send(stranger, wrong.data(), wrong.size(), 0);

  EXPECT_TRUE(Eventually(
      [&] { return count(RejectReason::kMalformed) == 1 && count(RejectReason::kWrongKind) == 1; }));
  const int linger = 0;
  ::zmq_setsockopt(stranger, ZMQ_LINGER, &linger, sizeof linger);
  ::zmq_close(stranger);
  ::zmq_ctx_term(context);
}

}  // namespace
}  // namespace paceline::testing
