// ControlServer and ControlClient: the control plane between the coordinator and its workers, two lanes each.
//
// Lane kControl carries plans, results and membership in order; lane kUrgent carries hints (cancels) on
// sockets of its own, so that they overtake. Coordinator:
//
//   ControlServer::Options options{.endpoint = "ipc:///run/p/control"};
//   ASSIGN_OR_RETURN(auto server, ControlServer::Bind(*fabric, loop, options, {
//       .on_message = [&](const WorkerId& from, WireMessage message, Lane) { core.OnMessage(from, ...); },
//       .on_peer_dropped = [&](const WorkerId& who, const Status& why) { core.OnPeerLost(who, why); }}));
//   RETURN_IF_ERROR(server->Send(worker, plan, Lane::kControl));
//
// Worker:
//
//   ASSIGN_OR_RETURN(auto client, ControlClient::Connect(*fabric, loop, {.self = id, .endpoint = ...}, {
//       .on_message = [&](WireMessage message, Lane) { core.OnMessage(std::move(message)); },
//       .on_link = [&](bool up) { if (up) SendHello(); }}));
//
// Start order is free: the client connects, and connects again, in the background; say Hello at each
// on_link(true), since the coordinator behind the address may be another one.
//
// Ordering: FIFO per worker, lane and direction while the connection lives; a reconnect may lose messages
// (P4: plans are asked for again). Nothing is kept for a peer that is not connected.
//
// Threading: made, used and destroyed on the loop's thread (or before Run). Callbacks run there.
//
// Limits: 1 MiB a message, `queue_messages_max` messages a peer and direction. Send never blocks: Unavailable
// means that the peer is unknown, not connected, or its queue is full (the text says which).
//
// Failure: bytes that do not decode, or a kind that does not travel this way, are counted
// (Fabric::rejected), never passed on; the server then drops that peer: what it sends later is ignored and
// on_peer_dropped says so once. A worker of another protocol major gets a Refusal that names both versions.
// A peer that vanishes is not reported by the server (ZeroMQ does not say who it was): the coordinator's
// heartbeats notice.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/actor/event_loop.h"
#include "common/base/status.h"
#include "common/protocol/membership.h"
#include "common/protocol/message.h"
#include "common/transport/fabric.h"

namespace paceline {

enum class Lane : uint8_t { kControl = 0, kUrgent = 1 };

class ControlServer {
 public:
  struct Options {
    std::string endpoint;  // of the control lane; the urgent lane's follows (common/transport/endpoint.h)
    int queue_messages_max = 4096;
  };
  struct Callbacks {
    std::function<void(const WorkerId& from, WireMessage message, Lane lane)> on_message;
    std::function<void(const WorkerId& who, const Status& why)> on_peer_dropped;  // may be empty
  };

  // FailedPrecondition: the endpoint is in use (a second coordinator, another program).
  static StatusOr<std::unique_ptr<ControlServer>> Bind(Fabric& fabric, EventLoop& loop, Options options,
                                                       Callbacks callbacks);
  virtual ~ControlServer() = default;

  virtual Status Send(const WorkerId& to, const WireMessage& message, Lane lane) = 0;
  // What workers connect to, with the real port.
  virtual const std::string& endpoint() const = 0;
};

class ControlClient {
 public:
  struct Options {
    WorkerId self;         // boot_nonce random per process start, never reused
    std::string endpoint;  // ControlServer::endpoint()
    int queue_messages_max = 4096;
  };
  struct Callbacks {
    std::function<void(WireMessage message, Lane lane)> on_message;
    // Both lanes up, or no longer. The first call is on_link(true).
    std::function<void(bool up)> on_link;
    // The coordinator speaks another protocol major; the worker cannot serve it (exit 76). May be empty.
    std::function<void(const Status& why)> on_incompatible;
  };

  static StatusOr<std::unique_ptr<ControlClient>> Connect(Fabric& fabric, EventLoop& loop, Options options,
                                                          Callbacks callbacks);
  virtual ~ControlClient() = default;

  virtual Status Send(const WireMessage& message, Lane lane) = 0;
  virtual bool link_up() const = 0;
};

// The routing id that a worker's sockets carry: 'W', role, rank, boot nonce (14 bytes, big endian).
std::string RoutingId(const WorkerId& worker);
// InvalidArgument when the bytes are no worker's id.
StatusOr<WorkerId> ParseRoutingId(std::string_view bytes);

}  // namespace paceline
