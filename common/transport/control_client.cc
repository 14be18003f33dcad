#include <array>
#include <utility>
#include <variant>

#include "common/base/log.h"
#include "common/transport/codec.h"
#include "common/transport/control_channel.h"
#include "common/transport/endpoint.h"
#include "common/transport/zmq_socket.h"

namespace paceline {
namespace {

constexpr int kMessagesPerTurn = 64;

// Kinds that only workers say.
bool MayComeFromCoordinator(const WireMessage& message) {
  return !std::holds_alternative<Hello>(message) && !std::holds_alternative<ReconfigureDone>(message) &&
         !std::holds_alternative<Heartbeat>(message) && !std::holds_alternative<PlanRequest>(message) &&
         !std::holds_alternative<Launched>(message);
}

struct ClientLane {
  ZmqSocket socket;
  ZmqSocket monitor;
  bool up = false;
};

StatusOr<ClientLane> OpenLane(Fabric& fabric, const ControlClient::Options& options) {
  ASSIGN_OR_RETURN(ZmqSocket socket, ZmqSocket::Open(fabric, ZmqType::kDealer,
                                                     {.queue_messages_max = options.queue_messages_max,
                                                      .routing_id = RoutingId(options.self)}));
  ASSIGN_OR_RETURN(ZmqSocket monitor, socket.Monitor());
  return ClientLane{std::move(socket), std::move(monitor)};
}

class DealerClient final : public ControlClient {
 public:
  DealerClient(Fabric& fabric, EventLoop& loop, ClientLane control, ClientLane urgent, Callbacks callbacks)
      : fabric_(fabric),
        loop_(loop),
        callbacks_(std::move(callbacks)),
        control_(std::move(control)),
        urgent_(std::move(urgent)) {
    Watch(urgent_, Lane::kUrgent);
    Watch(control_, Lane::kControl);
  }

  ~DealerClient() override {
    for (ClientLane* lane : {&control_, &urgent_}) {
      loop_.RemoveZmqSocket(lane->socket.raw());
      loop_.RemoveZmqSocket(lane->monitor.raw());
    }
  }

  // After the loop knows the sockets: a connection that comes up at once is not missed.
  Status Connect(const std::string& endpoint) {
    ASSIGN_OR_RETURN(const std::string urgent_endpoint, UrgentEndpoint(endpoint));
    RETURN_IF_ERROR(control_.socket.Connect(endpoint));
    return urgent_.socket.Connect(urgent_endpoint);
  }

  bool link_up() const override { return control_.up && urgent_.up; }

  Status Send(const WireMessage& message, Lane lane) override {
    const std::vector<std::byte> bytes = Encode(message);
    if (bytes.size() > kControlMessageBytesMax) {
      return InvalidArgumentError("{} of {} bytes, at most {}", KindName(message), bytes.size(),
                                  kControlMessageBytesMax);
    }
    return Annotate((lane == Lane::kUrgent ? urgent_ : control_).socket.Send(bytes), "coordinator");
  }

 private:
  void Watch(ClientLane& lane, Lane name) {
    loop_.AddZmqSocket(lane.monitor.raw(), [this, &lane] { OnMonitor(lane); });
    loop_.AddZmqSocket(lane.socket.raw(), [this, &lane, name] { OnReadable(lane.socket, name); });
  }

  void OnMonitor(ClientLane& lane) {
    while (const auto parts = lane.monitor.Receive()) {
      const LinkEvent event = ParseLinkEvent(*parts);
      const bool was_up = link_up();
      if (event == LinkEvent::kUp) lane.up = true;
      if (event == LinkEvent::kDown) lane.up = false;
      if (event == LinkEvent::kHandshakeFailed) fabric_.rejected().Add(RejectReason::kHandshake);
      if (link_up() != was_up && callbacks_.on_link) callbacks_.on_link(link_up());
    }
  }

  void OnReadable(ZmqSocket& socket, Lane lane) {
    for (int i = 0; i < kMessagesPerTurn; ++i) {
      const auto parts = socket.Receive();
      if (!parts.has_value()) return;
      OnParts(*parts, lane);
    }
  }

  // A worker distrusts the coordinator's bytes as it distrusts ours; it has no other to turn to, so bad ones
  // are counted and dropped one by one.
  void OnParts(const std::vector<std::string>& parts, Lane lane) {
    if (parts.size() != 1) return fabric_.rejected().Add(RejectReason::kMalformed);
    StatusOr<WireMessage> message = Decode(AsBytes(parts[0]));
    if (!message.ok()) {
      const RejectReason reason = ReasonOf(message.status());
      fabric_.rejected().Add(reason);
      LogWarn("coordinator_message_rejected", "reason={} why=\"{}\"", Name(reason),
              Message(message.status()));
      if (reason == RejectReason::kVersion && callbacks_.on_incompatible) {
        callbacks_.on_incompatible(message.status());
      }
      return;
    }
    if (!MayComeFromCoordinator(*message)) return fabric_.rejected().Add(RejectReason::kWrongKind);
    callbacks_.on_message(std::move(*message), lane);
  }

  Fabric& fabric_;
  EventLoop& loop_;
  const Callbacks callbacks_;
  ClientLane control_;
  ClientLane urgent_;
};

}  // namespace

StatusOr<std::unique_ptr<ControlClient>> ControlClient::Connect(Fabric& fabric, EventLoop& loop,
                                                                Options options, Callbacks callbacks) {
  ASSIGN_OR_RETURN(ClientLane control, OpenLane(fabric, options));
  ASSIGN_OR_RETURN(ClientLane urgent, OpenLane(fabric, options));
  auto client = std::make_unique<DealerClient>(fabric, loop, std::move(control), std::move(urgent),
                                               std::move(callbacks));
  RETURN_IF_ERROR(client->Connect(options.endpoint));
  return client;
}

}  // namespace paceline
