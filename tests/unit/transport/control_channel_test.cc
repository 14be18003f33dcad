// The control plane over real sockets: lanes, start order, restarts, and what strangers send to its ports.
#include "common/transport/control_channel.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zmq.h>

#include <atomic>
#include <optional>
#include <random>

#include "common/base/unique_fd.h"
#include "common/transport/codec.h"
#include "common/transport/endpoint.h"
#include "schemas/envelope_generated.h"
#include "tests/unit/transport/loop_fixture.h"

namespace paceline::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

struct Received {
  WorkerId from;
  WireMessage message;
  Lane lane;
};

WorkerId Stage(uint32_t rank, uint64_t nonce = 1) {
  return {.role = Role::kStage, .rank = rank, .boot_nonce = nonce};
}

// A coordinator on its own loop.
struct Coordinator {
  Coordinator(const std::string& endpoint, int queue = 4096)
      : fabric(Fabric::Create().value()), loop("coordinator"), server(loop, [&] {
          return ControlServer::Bind(
              *fabric, loop.loop(), {.endpoint = endpoint, .queue_messages_max = queue},
              {.on_message =
                   [this](const WorkerId& from, WireMessage message, Lane lane) {
                     received.Add({from, std::move(message), lane});
                   },
               .on_peer_dropped = [this](const WorkerId& who, const Status&) { dropped.Add(who); }});
        }) {
    server.Do([&](ControlServer& control) { bound = control.endpoint(); });
  }
  Status Send(const WorkerId& to, const WireMessage& message, Lane lane = Lane::kControl) {
    Status status;
    server.Do([&](ControlServer& control) { status = control.Send(to, message, lane); });
    return status;
  }

  Seen<Received> received;
  Seen<WorkerId> dropped;
  std::unique_ptr<Fabric> fabric;
  LoopThread loop;
  std::string bound;
  OnLoop<ControlServer> server;
};

struct Worker {
  Worker(WorkerId self, const std::string& endpoint)
      : fabric(Fabric::Create().value()), loop("worker"), client(loop, [&] {
          return ControlClient::Connect(
              *fabric, loop.loop(), {.self = self, .endpoint = endpoint},
              {.on_message =
                   [this](WireMessage message, Lane lane) {
                     received.Add({{}, std::move(message), lane});
                   },
               .on_link = [this](bool up) { links.Add(up); },
               .on_incompatible =
                   [this](const Status& why) { incompatible.Add(std::string(Message(why))); }});
        }) {}
  Status Send(const WireMessage& message, Lane lane = Lane::kControl) {
    Status status;
    client.Do([&](ControlClient& control) { status = control.Send(message, lane); });
    return status;
  }
  bool WaitForLink(bool up) {
    return Eventually([&] {
      const auto all = links.All();
      return !all.empty() && all.back() == up;
    });
  }

  Seen<Received> received;
  Seen<bool> links;
  Seen<std::string> incompatible;
  std::unique_ptr<Fabric> fabric;
  LoopThread loop;
  OnLoop<ControlClient> client;
};

Heartbeat Beat(uint64_t steps_done) {
  Heartbeat beat;
  beat.steps_done = steps_done;
  return beat;
}

class ControlChannel : public ::testing::TestWithParam<bool> {
 protected:
  std::string Endpoint() const {
    return GetParam() ? TcpEndpoint("127.0.0.1") : NewIpcEndpoint(dir_.path(), "control").value();
  }
  TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(Transports, ControlChannel, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Tcp" : "Ipc"; });

TEST_P(ControlChannel, CarriesBothLanesInBothDirectionsInOrder) {
  Coordinator coordinator(Endpoint());
  Worker worker(Stage(3, 99), coordinator.bound);
  ASSERT_TRUE(worker.WaitForLink(true));

  for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(worker.Send(Beat(i)).ok());
  ASSERT_TRUE(Eventually([&] { return coordinator.received.size() == 200; }));
  const auto up = coordinator.received.All();
  for (uint64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(up[i].from, Stage(3, 99));
    EXPECT_EQ(std::get<Heartbeat>(up[i].message).steps_done, i);
    EXPECT_EQ(up[i].lane, Lane::kControl);
  }

  ASSERT_TRUE(worker.Send(Beat(0), Lane::kUrgent).ok());
  ASSERT_TRUE(Eventually([&] { return coordinator.received.size() == 201; }));
  EXPECT_EQ(coordinator.received.All().back().lane, Lane::kUrgent);

  ASSERT_TRUE(coordinator.Send(Stage(3, 99), Release{}).ok());
  ASSERT_TRUE(coordinator.Send(Stage(3, 99), Cancel{}, Lane::kUrgent).ok());
  ASSERT_TRUE(Eventually([&] { return worker.received.size() == 2; }));
}

TEST_P(ControlChannel, SendingToAnUnknownWorkerIsUnavailable) {
  Coordinator coordinator(Endpoint());

  const Status status = coordinator.Send(Stage(7), Release{});

  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
}

TEST_P(ControlChannel, AWorkerWithoutACoordinatorQueuesNothing) {
  const std::string endpoint = GetParam() ? "tcp://127.0.0.1:29871" : Endpoint();
  Worker worker(Stage(0), endpoint);

  const Status status = worker.Send(Beat(1));

  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_EQ(worker.links.size(), 0u);
}

TEST_P(ControlChannel, AMessageOver1MiBIsRefusedBeforeItLeaves) {
  Coordinator coordinator(Endpoint());
  Worker worker(Stage(0), coordinator.bound);
  ASSERT_TRUE(worker.WaitForLink(true));
  Admission admission;
  admission.ids.assign(300000, 1);

  EXPECT_EQ(coordinator.Send(Stage(0), admission).code(), StatusCode::kInvalidArgument);
}

TEST(ControlChannelOrder, AWorkerMayStartFirst) {
  TempDir dir;
  const std::string endpoint = NewIpcEndpoint(dir.path(), "control").value();
  Worker worker(Stage(0), endpoint);
  std::this_thread::sleep_for(150ms);
  Coordinator coordinator(endpoint);

  ASSERT_TRUE(worker.WaitForLink(true));
  ASSERT_TRUE(worker.Send(Beat(1)).ok());
  EXPECT_TRUE(Eventually([&] { return coordinator.received.size() == 1; }));
}

TEST(ControlChannelOrder, AWorkerServesTheNextCoordinatorAndOldMessagesDoNotReachIt) {
  TempDir dir;
  const std::string endpoint = NewIpcEndpoint(dir.path(), "control").value();
  std::optional<Coordinator> coordinator;
  coordinator.emplace(endpoint);
  Worker worker(Stage(0), endpoint);
  ASSERT_TRUE(worker.WaitForLink(true));

  coordinator.reset();
  ASSERT_TRUE(worker.WaitForLink(false));
  EXPECT_EQ(worker.Send(Beat(1)).code(), StatusCode::kUnavailable) << "nobody there, nothing is kept";
  coordinator.emplace(endpoint);
  ASSERT_TRUE(worker.WaitForLink(true));
  ASSERT_TRUE(worker.Send(Beat(2)).ok());

  ASSERT_TRUE(Eventually([&] { return coordinator->received.size() == 1; }));
  EXPECT_EQ(std::get<Heartbeat>(coordinator->received.All()[0].message).steps_done, 2u);
}

TEST(ControlChannelOrder, AWorkerThatComesBackOnANewConnectionIsHeard) {
  // The old connection is still half open at the coordinator when the same worker connects anew.
  TempDir dir;
  Coordinator coordinator(NewIpcEndpoint(dir.path(), "control").value());
  Worker half_open(Stage(0, 5), coordinator.bound);
  ASSERT_TRUE(half_open.WaitForLink(true));
  ASSERT_TRUE(half_open.Send(Beat(1)).ok());
  ASSERT_TRUE(Eventually([&] { return coordinator.received.size() == 1; }));

  Worker again(Stage(0, 5), coordinator.bound);
  ASSERT_TRUE(again.WaitForLink(true));
  ASSERT_TRUE(again.Send(Beat(2)).ok());
  ASSERT_TRUE(again.Send(Beat(3)).ok());

  ASSERT_TRUE(Eventually([&] { return coordinator.received.size() >= 3; }));
  EXPECT_EQ(std::get<Heartbeat>(coordinator.received.All()[1].message).steps_done, 2u);
  ASSERT_TRUE(coordinator.Send(Stage(0, 5), Release{}).ok());
  EXPECT_TRUE(Eventually([&] { return again.received.size() == 1; }));
}

TEST(ControlChannelOrder, ASecondCoordinatorOnTheSameEndpointIsRefused) {
  TempDir dir;
  for (const std::string& endpoint :
       {NewIpcEndpoint(dir.path(), "control").value(), TcpEndpoint("127.0.0.1")}) {
    Coordinator first(endpoint);
    auto fabric = Fabric::Create().value();
    EventLoop loop;

    const auto second = ControlServer::Bind(*fabric, loop, {.endpoint = first.bound}, {});

    EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition) << second.status();
    EXPECT_THAT(std::string(Message(second.status())), HasSubstr("in use"));
  }
}

TEST(ControlChannelQueue, ASlowWorkerIsUnavailableAndOthersAreServed) {
  TempDir dir;
  Coordinator coordinator(NewIpcEndpoint(dir.path(), "control").value(), /*queue=*/10);
  Worker slow(Stage(0), coordinator.bound);
  Worker quick(Stage(1), coordinator.bound);
  ASSERT_TRUE(slow.WaitForLink(true) && quick.WaitForLink(true));
  std::mutex gate;
  gate.lock();
  ASSERT_TRUE(slow.loop.loop().Post([&] { const std::lock_guard wait(gate); }));
  Admission large;
  large.ids.assign(100000, 1);

  Status status;
  for (int i = 0; i < 20000 && status.ok(); ++i) status = coordinator.Send(Stage(0), large);

  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << "its queue has an end";
  EXPECT_TRUE(coordinator.Send(Stage(1), Release{}).ok());
  EXPECT_TRUE(Eventually([&] { return quick.received.size() == 1; }));
  gate.unlock();
}

TEST(ControlChannelLanes, ACancelOvertakesPlansThatWait) {
  TempDir dir;
  Coordinator coordinator(NewIpcEndpoint(dir.path(), "control").value());
  Worker worker(Stage(0), coordinator.bound);
  ASSERT_TRUE(worker.WaitForLink(true));
  std::mutex gate;
  gate.lock();
  std::atomic<bool> waits{false};
  ASSERT_TRUE(worker.loop.loop().Post([&] {
    waits = true;
    const std::lock_guard wait(gate);
  }));
  ASSERT_TRUE(Eventually([&] { return waits.load(); }));

  for (int i = 0; i < 500; ++i) ASSERT_TRUE(coordinator.Send(Stage(0), Release{}).ok());
  ASSERT_TRUE(coordinator.Send(Stage(0), Cancel{}, Lane::kUrgent).ok());
  std::this_thread::sleep_for(100ms);  // both are in the worker's queues, which nobody reads
  gate.unlock();

  ASSERT_TRUE(Eventually([&] { return worker.received.size() == 501; }));
  EXPECT_EQ(worker.received.All()[0].lane, Lane::kUrgent);
}

// A raw socket that says what it likes under the name it likes.
class Stranger {
 public:
  Stranger(const std::string& endpoint, const std::string& routing_id)
      : context_(::zmq_ctx_new()), socket_(::zmq_socket(context_, ZMQ_DEALER)) {
    const int linger = 200;
    ::zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
    if (!routing_id.empty()) {
      ::zmq_setsockopt(socket_, ZMQ_ROUTING_ID, routing_id.data(), routing_id.size());
    }
    EXPECT_EQ(::zmq_connect(socket_, endpoint.c_str()), 0);
  }
  ~Stranger() {
    ::zmq_close(socket_);
    ::zmq_ctx_term(context_);
  }
  void Say(std::span<const std::byte> bytes, int flags = 0) {
    ::zmq_send(socket_, bytes.data(), bytes.size(), flags);
  }
  std::vector<std::byte> Hear() {
    std::vector<std::byte> bytes(10000);
    const int timeout = 5000;
    ::zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout, sizeof timeout);
    const int count = ::zmq_recv(socket_, bytes.data(), bytes.size(), 0);
    bytes.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return bytes;
  }

 private:
  void* context_;
  void* socket_;
};

class HostileControlPort : public ::testing::Test {
 protected:
  bool WaitForCount(RejectReason reason, uint64_t count) {
    return Eventually([&] { return coordinator_.fabric->rejected().Count(reason) >= count; });
  }
  static std::vector<std::byte> Noise(size_t size) {
    std::vector<std::byte> bytes(size);
    std::mt19937 random(5);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  }
  TempDir dir_;
  Coordinator coordinator_{TcpEndpoint("127.0.0.1")};
};

TEST_F(HostileControlPort, B205_AWorkerThatSendsNoiseIsCountedDroppedAndNeverHeardAgain) {
  Stranger bad(coordinator_.bound, RoutingId(Stage(0)));
  bad.Say(Noise(100));
  ASSERT_TRUE(WaitForCount(RejectReason::kMalformed, 1));
  bad.Say(Encode(Beat(1)));
  ASSERT_TRUE(WaitForCount(RejectReason::kBanned, 1));

  EXPECT_EQ(coordinator_.received.size(), 0u);
  ASSERT_EQ(coordinator_.dropped.size(), 1u);
  EXPECT_EQ(coordinator_.dropped.All()[0], Stage(0));
}

TEST_F(HostileControlPort, ASenderThatIsNoWorkerIsCounted) {
  Stranger anonymous(coordinator_.bound, "");
  Stranger odd(coordinator_.bound, "somebody");
  anonymous.Say(Encode(Beat(1)));
  odd.Say(Encode(Beat(1)));

  EXPECT_TRUE(WaitForCount(RejectReason::kIdentity, 2));
  EXPECT_EQ(coordinator_.received.size(), 0u);
}

TEST_F(HostileControlPort, AHelloInAnotherWorkersNameIsDropped) {
  Hello hello;
  hello.worker = Stage(1);
  Stranger liar(coordinator_.bound, RoutingId(Stage(0)));
  liar.Say(Encode(hello));

  EXPECT_TRUE(WaitForCount(RejectReason::kIdentity, 1));
  EXPECT_EQ(coordinator_.received.size(), 0u);
}

TEST_F(HostileControlPort, WhatOnlyACoordinatorSaysIsDropped) {
  Stranger usurper(coordinator_.bound, RoutingId(Stage(0)));
  usurper.Say(Encode(Reconfigure{}));

  EXPECT_TRUE(WaitForCount(RejectReason::kWrongKind, 1));
}

TEST_F(HostileControlPort, AMessageInSeveralPartsIsDropped) {
  Stranger odd(coordinator_.bound, RoutingId(Stage(0)));
  for (int i = 0; i < 10; ++i) odd.Say(Encode(Beat(1)), ZMQ_SNDMORE);
  odd.Say(Encode(Beat(1)));

  EXPECT_TRUE(WaitForCount(RejectReason::kMalformed, 1));
}

TEST_F(HostileControlPort, AWorkerOfAnotherMajorIsRefusedWithBothVersions) {
  flatbuffers::FlatBufferBuilder builder;
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, /*protocol_major=*/2, 0));
  Stranger newer(coordinator_.bound, RoutingId(Stage(0)));

  newer.Say(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())));
  const auto answer = Decode(newer.Hear());

  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(std::get<Refusal>(*answer).reason,
              HasSubstr("peer speaks protocol 2.0, this build speaks 1.0"));
  EXPECT_EQ(std::get<Refusal>(*answer).exit_code, 76);
}

// Fault 32, small: random bytes, HTTP, half-open connections, torn greetings on both ports.
TEST_F(HostileControlPort, NoiseHttpAndHalfOpenConnectionsLeaveRealPeersAlone) {
  Worker worker(Stage(0), coordinator_.bound);
  ASSERT_TRUE(worker.WaitForLink(true));
  const auto port =
      static_cast<uint16_t>(std::stoi(coordinator_.bound.substr(coordinator_.bound.rfind(':') + 1)));
  const std::vector<std::byte> noise = Noise(5000);
  const std::string http = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
  std::vector<UniqueFd> connections;
  for (int i = 0; i < 300; ++i) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port + i % 2));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    const std::span<const std::byte> text = i % 3 == 0   ? std::as_bytes(std::span(http))
                                            : i % 3 == 1 ? std::span<const std::byte>(noise)
                                                         : std::span<const std::byte>();
    // A greeting that begins as ZeroMQ's does and goes on as noise.
    const unsigned char signature[10] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f};
    if (i % 6 == 1) ::send(fd.get(), signature, sizeof signature, MSG_NOSIGNAL);
    ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    connections.push_back(std::move(fd));
  }

  for (uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(worker.Send(Beat(i)).ok());
  EXPECT_TRUE(Eventually([&] { return coordinator_.received.size() == 50; }));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(coordinator_.Send(Stage(0), Release{}).ok());
  EXPECT_TRUE(Eventually([&] { return worker.received.size() == 50; }));
  EXPECT_TRUE(WaitForCount(RejectReason::kHandshake, 150))
      << "what is no ZeroMQ peer is turned away and counted";
  EXPECT_EQ(worker.links.All(), std::vector<bool>{true}) << "its link never blinked";
}

TEST(RoutingIds, SurviveTheRoundTripAndNothingElseIsOne) {
  const WorkerId id{.role = Role::kDrafter, .rank = 0x01020304, .boot_nonce = 0xfffefdfcfbfa0001};
  EXPECT_EQ(ParseRoutingId(RoutingId(id)).value(), id);

  EXPECT_FALSE(ParseRoutingId("").ok());
  EXPECT_FALSE(ParseRoutingId(RoutingId(id) + "x").ok());
  EXPECT_FALSE(ParseRoutingId(RoutingId({.role = Role::kCoordinator, .rank = 0, .boot_nonce = 1})).ok());
  EXPECT_FALSE(ParseRoutingId(std::string(14, '\0')).ok());
}

}  // namespace
}  // namespace paceline::testing
