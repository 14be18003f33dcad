#include "common/transport/published_log.h"

#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "common/base/log.h"
#include "common/transport/codec.h"
#include "common/transport/zmq_socket.h"

namespace paceline {
namespace {

constexpr int kMessagesPerTurn = 64;

// A subscriber's re-request socket gets its routing id from our router: a zero byte and four that count.
// Anything else was chosen by a peer, and no subscriber of ours chooses.
constexpr size_t kAskerIdBytes = 5;

std::optional<uint64_t> AskerOf(std::string_view routing_id) {
  if (routing_id.size() != kAskerIdBytes || routing_id[0] != 0) return std::nullopt;
  uint64_t asker = 0;
  for (const char c : routing_id) asker = (asker << 8) | static_cast<unsigned char>(c);
  return asker;
}

std::string RoutingIdOf(uint64_t asker) {
  std::string id(kAskerIdBytes, 0);
  for (size_t i = kAskerIdBytes; i-- > 0; asker >>= 8) id[i] = static_cast<char>(asker);
  return id;
}

class PubPublisher final : public LogPublisher {
 public:
  PubPublisher(Fabric& fabric, EventLoop& loop, ZmqSocket publish, ZmqSocket replay, Callbacks callbacks)
      : fabric_(fabric),
        loop_(loop),
        publish_(std::move(publish)),
        replay_(std::move(replay)),
        callbacks_(std::move(callbacks)) {
    loop_.AddZmqSocket(replay_.raw(), [this] { OnReadable(); });
  }
  ~PubPublisher() override { loop_.RemoveZmqSocket(replay_.raw()); }

  const std::string& publish_endpoint() const override { return publish_.endpoint(); }
  const std::string& replay_endpoint() const override { return replay_.endpoint(); }

  Status Publish(const WireMessage& message) override {
    const std::vector<std::byte> bytes = Encode(message);
    if (bytes.size() > kControlMessageBytesMax) {
      return InvalidArgumentError("{} of {} bytes, at most {}", KindName(message), bytes.size(),
                                  kControlMessageBytesMax);
    }
    return publish_.Send(bytes);
  }

  void Answer(uint64_t peer, const WireMessage& message) override {
    const Status sent = replay_.SendTo(RoutingIdOf(peer), Encode(message));
    // The asker's timer asks again.
    if (!sent.ok()) LogDebug("replay_not_sent", "kind={} why=\"{}\"", KindName(message), Message(sent));
  }

 private:
  void OnReadable() {
    for (int i = 0; i < kMessagesPerTurn; ++i) {
      const auto parts = replay_.Receive();
      if (!parts.has_value()) return;
      OnParts(*parts);
    }
  }

  // [routing id, ReplayRequest]
  void OnParts(const std::vector<std::string>& parts) {
    const std::optional<uint64_t> asker = AskerOf(parts[0]);
    if (!asker.has_value()) return fabric_.rejected().Add(RejectReason::kIdentity);
    if (parts.size() != 2) return fabric_.rejected().Add(RejectReason::kMalformed);
    const StatusOr<WireMessage> message = Decode(AsBytes(parts[1]));
    if (!message.ok()) return fabric_.rejected().Add(ReasonOf(message.status()));
    const ReplayRequest* request = std::get_if<ReplayRequest>(&*message);
    if (request == nullptr) return fabric_.rejected().Add(RejectReason::kWrongKind);
    callbacks_.on_replay_request(*asker, *request);
  }

  Fabric& fabric_;
  EventLoop& loop_;
  ZmqSocket publish_;
  ZmqSocket replay_;
  const Callbacks callbacks_;
};

class SubSubscriber final : public LogSubscriber {
 public:
  SubSubscriber(Fabric& fabric, EventLoop& loop, ZmqSocket subscribe, ZmqSocket replay, Callbacks callbacks)
      : fabric_(fabric),
        loop_(loop),
        subscribe_(std::move(subscribe)),
        replay_(std::move(replay)),
        callbacks_(std::move(callbacks)) {
    loop_.AddZmqSocket(subscribe_.raw(), [this] { OnReadable(subscribe_); });
    loop_.AddZmqSocket(replay_.raw(), [this] { OnReadable(replay_); });
  }
  ~SubSubscriber() override {
    loop_.RemoveZmqSocket(subscribe_.raw());
    loop_.RemoveZmqSocket(replay_.raw());
  }

  Status RequestReplay(const ReplayRequest& request) override {
    return Annotate(replay_.Send(Encode(request)), "log publisher");
  }

 private:
  void OnReadable(ZmqSocket& socket) {
    for (int i = 0; i < kMessagesPerTurn; ++i) {
      const auto parts = socket.Receive();
      if (!parts.has_value()) return;
      OnParts(*parts);
    }
  }

  void OnParts(const std::vector<std::string>& parts) {
    if (parts.size() != 1) return fabric_.rejected().Add(RejectReason::kMalformed);
    StatusOr<WireMessage> message = Decode(AsBytes(parts[0]));
    if (!message.ok()) return fabric_.rejected().Add(ReasonOf(message.status()));
    const bool belongs =
        std::holds_alternative<Proposal>(*message) || std::holds_alternative<Verdict>(*message) ||
        std::holds_alternative<Probe>(*message) || std::holds_alternative<ReplayAnswer>(*message);
    if (!belongs) return fabric_.rejected().Add(RejectReason::kWrongKind);
    callbacks_.on_message(std::move(*message));
  }

  Fabric& fabric_;
  EventLoop& loop_;
  ZmqSocket subscribe_;
  ZmqSocket replay_;
  const Callbacks callbacks_;
};

}  // namespace

StatusOr<std::unique_ptr<LogPublisher>> LogPublisher::Bind(Fabric& fabric, EventLoop& loop, Options options,
                                                           Callbacks callbacks) {
  const ZmqSocket::Options socket_options{.queue_messages_max = options.queue_messages_max, .routing_id = {}};
  ASSIGN_OR_RETURN(ZmqSocket publish, ZmqSocket::Open(fabric, ZmqType::kPub, socket_options));
  ASSIGN_OR_RETURN(ZmqSocket replay, ZmqSocket::Open(fabric, ZmqType::kRouter, socket_options));
  RETURN_IF_ERROR(publish.Bind(options.publish_endpoint));
  RETURN_IF_ERROR(replay.Bind(options.replay_endpoint));
  return std::make_unique<PubPublisher>(fabric, loop, std::move(publish), std::move(replay),
                                        std::move(callbacks));
}

StatusOr<std::unique_ptr<LogSubscriber>> LogSubscriber::Connect(Fabric& fabric, EventLoop& loop,
                                                                Options options, Callbacks callbacks) {
  const ZmqSocket::Options socket_options{.queue_messages_max = options.queue_messages_max, .routing_id = {}};
  ASSIGN_OR_RETURN(ZmqSocket subscribe, ZmqSocket::Open(fabric, ZmqType::kSub, socket_options));
  ASSIGN_OR_RETURN(ZmqSocket replay, ZmqSocket::Open(fabric, ZmqType::kDealer, socket_options));
  RETURN_IF_ERROR(subscribe.Connect(options.source.publish));
  RETURN_IF_ERROR(replay.Connect(options.source.replay));
  return std::make_unique<SubSubscriber>(fabric, loop, std::move(subscribe), std::move(replay),
                                         std::move(callbacks));
}

}  // namespace paceline
