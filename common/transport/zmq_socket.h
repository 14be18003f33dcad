// ZmqSocket: one ZeroMQ socket with the project's options, errors as Status. Names of zmq.h stop here.
//
// Internal to common/transport. Options and their reasons are in zmq_socket.cc. A socket belongs to one
// thread. ZeroMQ's descriptors are edge-triggered; only the event loop's zmq_poll may wait on a socket.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/transport/fabric.h"

namespace paceline {

enum class ZmqType { kRouter, kDealer, kPub, kSub, kPair };

class ZmqSocket {
 public:
  struct Options {
    int queue_messages_max = 4096;
    std::string routing_id;  // what a router knows us by; empty = a random one
  };
  static StatusOr<ZmqSocket> Open(Fabric& fabric, ZmqType type, const Options& options);
  ZmqSocket(ZmqSocket&& other) noexcept;
  ZmqSocket& operator=(ZmqSocket&&) = delete;
  ~ZmqSocket();

  // FailedPrecondition: in use. `endpoint` as in endpoint.h; endpoint() is the real one afterwards.
  Status Bind(const std::string& endpoint);
  void Unbind();
  Status Connect(const std::string& endpoint);
  const std::string& endpoint() const { return endpoint_; }

  // Never waits. Unavailable: nobody there or the queue is full, as the text says.
  Status Send(std::span<const std::byte> bytes);
  // Through a router, to one peer.
  Status SendTo(std::string_view routing_id, std::span<const std::byte> bytes);
  // The parts of the next message, if one is there. More than `kPartsMax` are read and cut off.
  std::optional<std::vector<std::string>> Receive();
  static constexpr size_t kPartsMax = 3;

  // Starts reporting connection events on a pair socket of its own.
  StatusOr<ZmqSocket> Monitor();
  void* raw() { return socket_; }

 private:
  ZmqSocket(Fabric& fabric, void* socket) : fabric_(&fabric), socket_(socket) {}
  Status SendPart(const void* data, size_t bytes, int flags);

  Fabric* fabric_;
  void* socket_;
  std::string endpoint_;
  bool bound_ = false;
};

// What a monitor says about a connection.
enum class LinkEvent { kUp, kDown, kHandshakeFailed, kOther };
// The event of one message of a monitor's pair socket.
LinkEvent ParseLinkEvent(const std::vector<std::string>& parts);

inline std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace paceline
