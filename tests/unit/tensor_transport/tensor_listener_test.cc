// Who gets in: hellos, stale and future generations, random bytes, addresses, files that must not stay
// behind.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <random>

#include "common/base/unique_fd.h"
#include "common/tensor_transport/edge_hello.h"
#include "tests/unit/tensor_transport/edge_fixture.h"

namespace paceline::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

UniqueFd RawConnect(const std::string& address) {
  UniqueFd fd;
  if (address.starts_with("unix:")) {
    fd.Reset(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::strncpy(to.sun_path, address.c_str() + 5, sizeof to.sun_path - 1);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  fd.Reset(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

void RawSend(const UniqueFd& fd, std::span<const std::byte> bytes) {
  ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

class TensorListenerOf : public ::testing::TestWithParam<Maker> {
 protected:
  std::unique_ptr<TensorListener> Listen(const TensorLimits& limits = {.ring_bytes = 64 << 10}) {
    auto listener = TensorListener::Listen({.address = AddressFor(GetParam(), dir_), .limits = limits});
    EXPECT_TRUE(listener.ok()) << listener.status();
    return std::move(listener).value();
  }
  TempDir dir_;
};

INSTANTIATE_TEST_SUITE_P(SocketMakers, TensorListenerOf, ::testing::Values(Maker::kShm, Maker::kTcp),
                         [](const auto& param) { return NameOf(param.param); });

TEST_P(TensorListenerOf, RandomBytesHttpAndSilenceAreRefusedAndTheRightPeerComesIn) {
  auto listener = Listen();
  std::mt19937 random(7);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 90; ++i) {
    strangers.push_back(RawConnect(listener->address()));
    if (i % 3 == 0) continue;  // silent
    std::string text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    if (i % 3 == 2) {
      for (char& c : text) c = static_cast<char>(random());
    }
    RawSend(strangers.back(), std::as_bytes(std::span(text)));
    // The backlog is 64: let the listener take some.
    if (i % 30 == 29) {
      EXPECT_FALSE(listener->Accept(kEdge, In(50ms)).ok());
    }
  }

  std::thread peer([&] { EXPECT_TRUE(ConnectTensor(listener->address(), kEdge, In(10s)).ok()); });
  const auto receiver = listener->Accept(kEdge, In(10s));
  peer.join();

  EXPECT_TRUE(receiver.ok()) << receiver.status();
  EXPECT_GE(listener->num_refused(), 59u);
}

TEST_P(TensorListenerOf, AStaleGenerationIsRefusedByName) {
  auto listener = Listen();
  EdgeId stale = kEdge;
  stale.generation = 2;
  Status refused;

  std::thread old_peer([&] { refused = ConnectTensor(listener->address(), stale, In(10s)).status(); });
  const Status accepted = listener->Accept(kEdge, In(500ms)).status();
  old_peer.join();

  EXPECT_EQ(accepted.code(), StatusCode::kDeadlineExceeded) << accepted;
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(Message(refused)),
              HasSubstr("stale generation: offered stage 0 -> stage 1, generation 2, "
                        "wanted stage 0 -> stage 1, generation 3"));
}

TEST_P(TensorListenerOf, AnEdgeOfOtherStagesIsRefusedByName) {
  auto listener = Listen();
  EdgeId other = kEdge;
  other.from_stage = kDrafterStage;
  Status refused;

  std::thread peer([&] { refused = ConnectTensor(listener->address(), other, In(10s)).status(); });
  EXPECT_FALSE(listener->Accept(kEdge, In(500ms)).ok());
  peer.join();

  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("the draft worker -> stage 1"));
}

TEST_P(TensorListenerOf, AFutureGenerationTriesAgainUntilTheListenerHasHeardOfIt) {
  auto listener = Listen();
  EdgeId next = kEdge;
  next.generation = 4;

  std::thread peer([&] { EXPECT_TRUE(ConnectTensor(listener->address(), next, In(10s)).ok()); });
  const Status now = listener->Accept(kEdge, In(200ms)).status();
  const auto then = listener->Accept(next, In(10s));
  peer.join();

  EXPECT_EQ(now.code(), StatusCode::kDeadlineExceeded) << now;
  EXPECT_TRUE(then.ok()) << then.status();
}

TEST_P(TensorListenerOf, TheNextGenerationConnectsToTheSameAddress) {
  auto listener = Listen();
  for (uint32_t generation = 1; generation <= 3; ++generation) {
    EdgeId edge = kEdge;
    edge.generation = generation;
    StatusOr<std::unique_ptr<TensorSender>> sender = UnavailableError("not connected");
    std::thread peer([&] { sender = ConnectTensor(listener->address(), edge, In(10s)); });
    auto receiver = listener->Accept(edge, In(10s));
    peer.join();

    ASSERT_TRUE(receiver.ok() && sender.ok()) << receiver.status() << sender.status();
    ASSERT_TRUE((*sender)->Send(Pattern(generation, 8), {}, In(5s)).ok());
    EXPECT_EQ((*receiver)->Receive(In(5s))->header, Pattern(generation, 8));
  }
}

TEST_P(TensorListenerOf, CloseWakesAccept) {
  auto listener = Listen();
  std::thread closer([&] {
    std::this_thread::sleep_for(50ms);
    listener->Close();
  });

  const Status status = listener->Accept(kEdge, In(30s)).status();
  closer.join();

  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
}

TEST_P(TensorListenerOf, AnAddressInUseIsRefused) {
  auto listener = Listen();

  const auto second = TensorListener::Listen({.address = listener->address(), .limits = {}});

  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition) << second.status();
  EXPECT_THAT(std::string(Message(second.status())), HasSubstr("in use"));
}

TEST_P(TensorListenerOf, AHelloOfAnotherVersionIsToldBothVersions) {
  auto listener = Listen();
  auto hello = EncodeHello(kEdge);
  hello[8] = std::byte{9};
  const UniqueFd peer = RawConnect(listener->address());
  RawSend(peer, hello);

  EXPECT_FALSE(listener->Accept(kEdge, In(200ms)).ok());
  std::array<std::byte, kEdgeAnswerBytes> bytes{};
  ASSERT_EQ(::recv(peer.get(), bytes.data(), bytes.size(), MSG_DONTWAIT), static_cast<ssize_t>(bytes.size()));
  const auto answer = DecodeAnswer(bytes);

  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->verdict, EdgeVerdict::kRefused);
  EXPECT_THAT(answer->reason, HasSubstr("edge protocol 9, this build speaks 1"));
}

TEST_P(TensorListenerOf, APeerThatGaveUpBeforeItsAnswerDoesNotTakeThePlaceOfItsNextTry) {
  auto listener = Listen();
  UniqueFd impatient = RawConnect(listener->address());
  RawSend(impatient, EncodeHello(kEdge));
  std::thread peer([&] {
    std::this_thread::sleep_for(50ms);
    impatient.Reset();
    EXPECT_TRUE(ConnectTensor(listener->address(), kEdge, In(10s)).ok());
  });

  const auto receiver = listener->Accept(kEdge, In(10s));
  peer.join();

  EXPECT_TRUE(receiver.ok()) << receiver.status();
  EXPECT_EQ(listener->num_refused(), 1u);
}

TEST_P(TensorListenerOf, StartOrderIsFree) {
  const std::string address = GetParam() == Maker::kShm ? AddressFor(GetParam(), dir_) : Listen()->address();
  std::thread peer([&] { EXPECT_TRUE(ConnectTensor(address, kEdge, In(10s)).ok()); });
  std::this_thread::sleep_for(100ms);

  auto listener = TensorListener::Listen({.address = address, .limits = {}});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto receiver = (*listener)->Accept(kEdge, In(10s));
  peer.join();

  EXPECT_TRUE(receiver.ok()) << receiver.status();
}

TEST_P(TensorListenerOf, ConnectingToNobodyNamesWhomItWaitedFor) {
  const std::string address = GetParam() == Maker::kShm ? AddressFor(GetParam(), dir_) : Listen()->address();

  const Status status = ConnectTensor(address, kEdge, In(100ms)).status();

  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("stage 0 -> stage 1, generation 3 to " + address));
}

TEST(TensorListenerTcp, BytesThatBreakTheFramingCloseTheEdgeAsDataLoss) {
  TempDir dir;
  auto listener = TensorListener::Listen({.address = "tcp:127.0.0.1:0", .limits = {}});
  ASSERT_TRUE(listener.ok());
  const UniqueFd peer = RawConnect((*listener)->address());
  RawSend(peer, EncodeHello(kEdge));
  RawSend(peer, std::span(&kEdgeConfirm, 1));
  auto receiver = (*listener)->Accept(kEdge, In(5s));
  ASSERT_TRUE(receiver.ok()) << receiver.status();

  RawSend(peer, Pattern(1, 64));

  EXPECT_EQ((*receiver)->Receive(In(5s)).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ((*receiver)->Receive(In(5s)).status().code(), StatusCode::kUnavailable);
}

TEST(TensorListenerTcp, AnAnnouncedSizeOverTheLimitAllocatesNothing) {
  auto listener = TensorListener::Listen({.address = "tcp:127.0.0.1:0", .limits = {}});
  ASSERT_TRUE(listener.ok());
  const UniqueFd peer = RawConnect((*listener)->address());
  RawSend(peer, EncodeHello(kEdge));
  RawSend(peer, std::span(&kEdgeConfirm, 1));
  auto receiver = (*listener)->Accept(kEdge, In(5s));
  ASSERT_TRUE(receiver.ok()) << receiver.status();

  const struct {
    uint32_t magic = 0x544C4350;
    uint32_t header_bytes = 0;
    uint64_t payload_bytes = 1ull << 60;
  } prefix;
  RawSend(peer, std::as_bytes(std::span(&prefix, 1)));

  const Status status = (*receiver)->Receive(In(5s)).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("1152921504606846976"));
}

TEST(TensorListenerTcp, TakesTheFirstFreePortOfARange) {
  auto first = TensorListener::Listen({.address = "tcp:127.0.0.1:0", .limits = {}});
  ASSERT_TRUE(first.ok());
  const int port = std::stoi((*first)->address().substr(14));
  const auto range = [](int from, int to) { return fmt::format("tcp:127.0.0.1:{}-{}", from, to); };

  const auto full = TensorListener::Listen({.address = range(port, port), .limits = {}});
  const auto second =
      TensorListener::Listen({.address = range(port, std::min(port + 20, 65535)), .limits = {}});

  EXPECT_EQ(full.status().code(), StatusCode::kFailedPrecondition) << full.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(std::stoi((*second)->address().substr(14)), port);
}

TEST(TensorListenerUnix, LeavesNoFileBehind) {
  TempDir dir;
  {
    Edge edge = MakeEdge(Maker::kShm, dir, {});
    EXPECT_TRUE(dir.IsEmpty()) << "the path goes as soon as the peer is accepted";
    EXPECT_EQ(edge.listener->Accept(kEdge, In(1ms)).status().code(), StatusCode::kDeadlineExceeded);
    EXPECT_FALSE(dir.IsEmpty()) << "and is there again for the next generation";
  }
  EXPECT_TRUE(dir.IsEmpty());
}

TEST(TensorListenerUnix, TakesOverThePathThatAKilledProcessLeft) {
  TempDir dir;
  const std::string path = dir.File("edge");
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::strncpy(to.sun_path, path.c_str(), sizeof to.sun_path - 1);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path));

  EXPECT_TRUE(TensorListener::Listen({.address = "unix:" + path, .limits = {}}).ok());
}

TEST(TensorAddress, BadOnesAreRefusedByName) {
  for (const std::string address :
       {"", "stage-1", "unix:relative", "tcp:", "tcp:host", "tcp::5", "tcp:host:", "tcp:host:x",
        "tcp:host:70000", "tcp:host:9-8", "tcp:host:0-8", "http://x"}) {
    const auto listener = TensorListener::Listen({.address = address, .limits = {}});
    EXPECT_EQ(listener.status().code(), StatusCode::kInvalidArgument) << address << ": " << listener.status();
    EXPECT_THAT(std::string(Message(listener.status())), HasSubstr(address));
  }
  const auto too_long = TensorListener::Listen({.address = "unix:/" + std::string(200, 'x'), .limits = {}});
  EXPECT_THAT(std::string(Message(too_long.status())), HasSubstr("201 bytes, at most 107"));
}

TEST(TensorAddress, AHostThatIsNotOursIsRefusedAtOnce) {
  const auto listener = TensorListener::Listen({.address = "tcp:192.0.2.1:0", .limits = {}});

  EXPECT_EQ(listener.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(listener.status())), HasSubstr("192.0.2.1"));
}

}  // namespace
}  // namespace paceline::testing
