#include <set>
#include <utility>
#include <variant>

#include "common/base/log.h"
#include "common/transport/codec.h"
#include "common/transport/control_channel.h"
#include "common/transport/endpoint.h"
#include "common/transport/zmq_socket.h"

namespace paceline {
namespace {

// Messages taken per turn of the loop, so that the urgent lane, which is looked at first, gets its turn.
constexpr int kMessagesPerTurn = 64;
// Remembered peers that misbehaved. Boot nonces are random, so a full table forgets one nobody will miss.
constexpr size_t kBannedMax = 1024;
constexpr int kEphemeralTries = 50;

// Kinds that only the coordinator says; from a worker they are an attack or a bug.
bool MayComeFromWorker(const WireMessage& message) {
  return !std::holds_alternative<Refusal>(message) && !std::holds_alternative<Reconfigure>(message) &&
         !std::holds_alternative<DrafterChange>(message) && !std::holds_alternative<Admission>(message) &&
         !std::holds_alternative<Release>(message) && !std::holds_alternative<Cancel>(message) &&
         !std::holds_alternative<StepPlan>(message);
}

// Both lanes on neighbouring ports; with a free choice of port, until a pair is found.
Status BindLanes(ZmqSocket& control, ZmqSocket& urgent, const std::string& endpoint) {
  for (int tries = 0; tries < kEphemeralTries; ++tries) {
    RETURN_IF_ERROR(control.Bind(endpoint));
    const StatusOr<std::string> urgent_endpoint = UrgentEndpoint(control.endpoint());
    const Status status = urgent_endpoint.ok() ? urgent.Bind(*urgent_endpoint) : urgent_endpoint.status();
    if (status.ok()) return status;
    if (!endpoint.ends_with(":*")) return status;
    control.Unbind();
  }
  return FailedPreconditionError("endpoint {}: found no two neighbouring free ports", endpoint);
}

class RouterServer final : public ControlServer {
 public:
  RouterServer(Fabric& fabric, EventLoop& loop, ZmqSocket control, ZmqSocket urgent,
               ZmqSocket control_monitor, ZmqSocket urgent_monitor, Callbacks callbacks)
      : fabric_(fabric),
        loop_(loop),
        callbacks_(std::move(callbacks)),
        control_(std::move(control)),
        urgent_(std::move(urgent)),
        control_monitor_(std::move(control_monitor)),
        urgent_monitor_(std::move(urgent_monitor)) {
    loop_.AddZmqSocket(urgent_.raw(), [this] { OnReadable(urgent_, Lane::kUrgent); });
    loop_.AddZmqSocket(control_.raw(), [this] { OnReadable(control_, Lane::kControl); });
    loop_.AddZmqSocket(control_monitor_.raw(), [this] { OnMonitor(control_monitor_); });
    loop_.AddZmqSocket(urgent_monitor_.raw(), [this] { OnMonitor(urgent_monitor_); });
  }

  ~RouterServer() override {
    for (ZmqSocket* socket : {&urgent_, &control_, &control_monitor_, &urgent_monitor_}) {
      loop_.RemoveZmqSocket(socket->raw());
    }
  }

  const std::string& endpoint() const override { return control_.endpoint(); }

  Status Send(const WorkerId& to, const WireMessage& message, Lane lane) override {
    const std::vector<std::byte> bytes = Encode(message);
    if (bytes.size() > kControlMessageBytesMax) {
      return InvalidArgumentError("{} of {} bytes, at most {}", KindName(message), bytes.size(),
                                  kControlMessageBytesMax);
    }
    return (lane == Lane::kUrgent ? urgent_ : control_).SendTo(RoutingId(to), bytes);
  }

 private:
  void OnReadable(ZmqSocket& socket, Lane lane) {
    for (int i = 0; i < kMessagesPerTurn; ++i) {
      const auto parts = socket.Receive();
      if (!parts.has_value()) return;
      OnParts(*parts, lane);
    }
  }

  // ZeroMQ reports some refused connections only as one more that ended. Who ended without having come up is
  // the surplus of ends over arrivals, short by the peers that are up: a lower bound, exact for a crowd.
  void OnMonitor(ZmqSocket& monitor) {
    while (const auto parts = monitor.Receive()) {
      const LinkEvent event = ParseLinkEvent(*parts);
      if (event == LinkEvent::kUp) --num_ended_without_up_;
      if (event == LinkEvent::kDown) ++num_ended_without_up_;
    }
    for (; num_refused_ < num_ended_without_up_; ++num_refused_) Count(RejectReason::kHandshake);
  }

  // [routing id, message]; whatever else came is no worker of ours.
  void OnParts(const std::vector<std::string>& parts, Lane lane) {
    const StatusOr<WorkerId> from = ParseRoutingId(parts[0]);
    if (!from.ok()) return Count(RejectReason::kIdentity);
    if (banned_.contains(*from)) return Count(RejectReason::kBanned);
    if (parts.size() != 2) {
      return Drop(*from, RejectReason::kMalformed,
                  InvalidArgumentError("a message in {} parts, want 1", parts.size() - 1));
    }
    StatusOr<WireMessage> message = Decode(AsBytes(parts[1]));
    if (!message.ok()) return OnUndecodable(*from, message.status(), lane);
    if (!MayComeFromWorker(*message)) {
      return Drop(*from, RejectReason::kWrongKind,
                  InvalidArgumentError("a {}, which only the coordinator sends", KindName(*message)));
    }
    const Hello* hello = std::get_if<Hello>(&*message);
    if (hello != nullptr && hello->worker != *from) {
      return Drop(
          *from, RejectReason::kIdentity,
          InvalidArgumentError("a Hello in the name of another worker (rank {})", hello->worker.rank));
    }
    callbacks_.on_message(*from, std::move(*message), lane);
  }

  void OnUndecodable(const WorkerId& from, const Status& why, Lane lane) {
    const RejectReason reason = ReasonOf(why);
    // A newer minor may know kinds that we do not: counted and ignored.
    if (reason == RejectReason::kUnknownKind) return Count(reason);
    if (reason == RejectReason::kVersion) {
      const Status sent = Send(from, Refusal{.reason = std::string(Message(why))}, lane);
      if (!sent.ok()) LogDebug("refusal_not_sent", "rank={} why=\"{}\"", from.rank, Message(sent));
    }
    Drop(from, reason, why);
  }

  void Count(RejectReason reason) { fabric_.rejected().Add(reason); }

  void Drop(const WorkerId& who, RejectReason reason, const Status& why) {
    Count(reason);
    if (banned_.size() >= kBannedMax) banned_.erase(banned_.begin());
    banned_.insert(who);
    LogWarn("peer_dropped", "role={} rank={} reason={} why=\"{}\"", static_cast<int>(who.role), who.rank,
            Name(reason), Message(why));
    if (callbacks_.on_peer_dropped) callbacks_.on_peer_dropped(who, why);
  }

  Fabric& fabric_;
  EventLoop& loop_;
  const Callbacks callbacks_;
  ZmqSocket control_;
  ZmqSocket urgent_;
  ZmqSocket control_monitor_;
  ZmqSocket urgent_monitor_;
  std::set<WorkerId> banned_;
  int64_t num_ended_without_up_ = 0;  // connections that ended, less those that came up
  int64_t num_refused_ = 0;           // counted so far
};

}  // namespace

StatusOr<std::unique_ptr<ControlServer>> ControlServer::Bind(Fabric& fabric, EventLoop& loop, Options options,
                                                             Callbacks callbacks) {
  const ZmqSocket::Options socket_options{.queue_messages_max = options.queue_messages_max, .routing_id = {}};
  ASSIGN_OR_RETURN(ZmqSocket control, ZmqSocket::Open(fabric, ZmqType::kRouter, socket_options));
  ASSIGN_OR_RETURN(ZmqSocket urgent, ZmqSocket::Open(fabric, ZmqType::kRouter, socket_options));
  ASSIGN_OR_RETURN(ZmqSocket control_monitor, control.Monitor());
  ASSIGN_OR_RETURN(ZmqSocket urgent_monitor, urgent.Monitor());
  RETURN_IF_ERROR(BindLanes(control, urgent, options.endpoint));
  return std::make_unique<RouterServer>(fabric, loop, std::move(control), std::move(urgent),
                                        std::move(control_monitor), std::move(urgent_monitor),
                                        std::move(callbacks));
}

std::string RoutingId(const WorkerId& worker) {
  std::string id = "W";  // ZeroMQ's own ids begin with a zero byte
  id.push_back(static_cast<char>(worker.role));
  for (int shift = 24; shift >= 0; shift -= 8) id.push_back(static_cast<char>(worker.rank >> shift));
  for (int shift = 56; shift >= 0; shift -= 8) id.push_back(static_cast<char>(worker.boot_nonce >> shift));
  return id;
}

StatusOr<WorkerId> ParseRoutingId(std::string_view bytes) {
  constexpr size_t kBytes = 14;
  if (bytes.size() != kBytes || bytes[0] != 'W') {
    return InvalidArgumentError("routing id of {} bytes is no worker's", bytes.size());
  }
  const auto number = [&](size_t begin, size_t count) {
    uint64_t value = 0;
    for (const char c : bytes.substr(begin, count)) value = (value << 8) | static_cast<unsigned char>(c);
    return value;
  };
  const auto role = static_cast<Role>(bytes[1]);
  if (role != Role::kStage && role != Role::kDrafter) {
    return InvalidArgumentError("routing id with role {}", static_cast<int>(role));
  }
  return WorkerId{.role = role, .rank = static_cast<uint32_t>(number(2, 4)), .boot_nonce = number(6, 8)};
}

}  // namespace paceline
