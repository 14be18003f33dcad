#include "common/transport/zmq_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "common/base/check.h"
#include "common/base/unique_fd.h"
#include "common/transport/codec.h"

namespace paceline {
namespace {

int NativeType(ZmqType type) {
  switch (type) {
    case ZmqType::kRouter:
      return ZMQ_ROUTER;
    case ZmqType::kDealer:
      return ZMQ_DEALER;
    case ZmqType::kPub:
      return ZMQ_PUB;
    case ZmqType::kSub:
      return ZMQ_SUB;
    case ZmqType::kPair:
      return ZMQ_PAIR;
  }
  return ZMQ_PAIR;
}

template <typename T>
void Set(void* socket, int option, T value) {
  CHECK_EQ(::zmq_setsockopt(socket, option, &value, sizeof value), 0) << "option " << option;
}

void SetOptions(void* socket, ZmqType type, const ZmqSocket::Options& options) {
  Set<int>(socket, ZMQ_LINGER, 0);  // close never waits; a goodbye is a message
  Set<int>(socket, ZMQ_SNDHWM, options.queue_messages_max);
  Set<int>(socket, ZMQ_RCVHWM, options.queue_messages_max);
  Set<int64_t>(socket, ZMQ_MAXMSGSIZE, kControlMessageBytesMax);  // a peer cannot make us buffer more
  Set<int>(socket, ZMQ_HANDSHAKE_IVL, 2000);
  Set<int>(socket, ZMQ_HEARTBEAT_IVL, 500);  // half-open links end after 1.5 s
  Set<int>(socket, ZMQ_HEARTBEAT_TIMEOUT, 1500);
  Set<int>(socket, ZMQ_HEARTBEAT_TTL, 1500);
  Set<int>(socket, ZMQ_RECONNECT_IVL, 100);
  Set<int>(socket, ZMQ_RECONNECT_IVL_MAX, 5000);
  Set<int>(socket, ZMQ_IPV6, 1);
  Set<int>(socket, ZMQ_BACKLOG, 1024);
  // A socket with a ZAP domain refuses peers of ZMTP 1 and 2, i.e. whatever does not begin with today's
  // greeting. libzmq 4.3.4 aborts when such a peer sends its first message while the socket closes
  // (errno_assert in process_routing_id_msg), so plain HTTP on a port could take the process down. Without a
  // ZAP handler the domain changes nothing else.
  ::zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, "paceline", std::strlen("paceline"));
  if (type == ZmqType::kDealer) {
    // Nothing is queued for a peer that is not connected: old commands must not reach a successor.
    Set<int>(socket, ZMQ_IMMEDIATE, 1);
  }
  if (type == ZmqType::kRouter) {
    Set<int>(socket, ZMQ_ROUTER_MANDATORY, 1);  // a message to nobody is an error, not silence
    // Routing ids carry a boot nonce and never name two processes, so the one who comes with a known id is
    // the same worker on a new connection, whose old one is still half open here. Without handover the router
    // would take the first message of the new connection for its id, and the worker would never be heard
    // again.
    Set<int>(socket, ZMQ_ROUTER_HANDOVER, 1);
  }
  if (type == ZmqType::kSub) ::zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
  if (!options.routing_id.empty()) {
    ::zmq_setsockopt(socket, ZMQ_ROUTING_ID, options.routing_id.data(), options.routing_id.size());
  }
}

// ZeroMQ removes whatever file is at the path before it binds: a second coordinator would silently take over.
Status CheckIpcIsFree(const std::string& endpoint) {
  const std::string path = endpoint.substr(std::strlen("ipc://"));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return InvalidArgumentError("endpoint {}: the path has {} bytes, 1 to {} are possible", endpoint,
                                path.size(), sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EAGAIN) {
    return OkStatus();
  }
  return FailedPreconditionError("endpoint {} is in use by a running process (a second coordinator?)",
                                 endpoint);
}

Status BindError(const std::string& endpoint) {
  const int error = zmq_errno();
  if (error == EADDRINUSE) {
    return FailedPreconditionError("endpoint {} is in use by another process", endpoint);
  }
  if (error == EINVAL) {
    return InvalidArgumentError("endpoint {} is not well formed: want ipc:///path or tcp://address:port",
                                endpoint);
  }
  if (error == ENODEV) {
    return UnavailableError("endpoint {}: no such address on this host", endpoint);
  }
  return UnavailableError("endpoint {}: {}", endpoint, zmq_strerror(error));
}

// "tcp://host:4000-4010" -> "tcp://host:", 4000, 4010; others have no range.
struct PortSpan {
  std::string prefix;
  uint32_t first = 0;
  uint32_t last = 0;
};
std::optional<PortSpan> FindPortSpan(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  const size_t dash = endpoint.rfind('-');
  if (!endpoint.starts_with("tcp://") || dash == std::string::npos || dash < colon) return std::nullopt;
  PortSpan span{.prefix = endpoint.substr(0, colon + 1)};
  const char* text = endpoint.data();
  const auto first = std::from_chars(text + colon + 1, text + dash, span.first);
  const auto last = std::from_chars(text + dash + 1, text + endpoint.size(), span.last);
  if (first.ec != std::errc() || last.ec != std::errc() || first.ptr != text + dash) return std::nullopt;
  return span;
}

}  // namespace

StatusOr<ZmqSocket> ZmqSocket::Open(Fabric& fabric, ZmqType type, const Options& options) {
  void* socket = ::zmq_socket(fabric.context(), NativeType(type));
  if (socket == nullptr) return ResourceExhaustedError("ZeroMQ socket: {}", zmq_strerror(zmq_errno()));
  SetOptions(socket, type, options);
  fabric.CountSocket(+1);
  return ZmqSocket(fabric, socket);
}

ZmqSocket::ZmqSocket(ZmqSocket&& other) noexcept
    : fabric_(other.fabric_),
      socket_(std::exchange(other.socket_, nullptr)),
      endpoint_(std::move(other.endpoint_)),
      bound_(other.bound_) {}

ZmqSocket::~ZmqSocket() {
  if (socket_ == nullptr) return;
  ::zmq_close(socket_);
  fabric_->CountSocket(-1);
  // libzmq 4.3.4 leaves the file of a bound ipc endpoint behind; a clean end leaves nothing.
  constexpr std::string_view kIpc = "ipc://";
  if (bound_ && endpoint_.starts_with(kIpc)) ::unlink(endpoint_.c_str() + kIpc.size());
}

Status ZmqSocket::Bind(const std::string& endpoint) {
  if (const auto span = FindPortSpan(endpoint)) {
    for (uint32_t port = span->first; port <= span->last; ++port) {
      const Status status = Bind(span->prefix + std::to_string(port));
      if (status.code() != absl::StatusCode::kFailedPrecondition) return status;
    }
    return FailedPreconditionError("endpoint {}: every port of the range is in use", endpoint);
  }
  if (endpoint.starts_with("ipc://")) RETURN_IF_ERROR(CheckIpcIsFree(endpoint));
  if (::zmq_bind(socket_, endpoint.c_str()) != 0) return BindError(endpoint);
  char real[512] = {};
  size_t length = sizeof real;
  CHECK_EQ(::zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, real, &length), 0);
  endpoint_ = real;
  bound_ = true;
  return OkStatus();
}

void ZmqSocket::Unbind() { ::zmq_unbind(socket_, endpoint_.c_str()); }

Status ZmqSocket::Connect(const std::string& endpoint) {
  if (::zmq_connect(socket_, endpoint.c_str()) != 0) {
    return InvalidArgumentError("endpoint {}: {}", endpoint, zmq_strerror(zmq_errno()));
  }
  endpoint_ = endpoint;
  return OkStatus();
}

Status ZmqSocket::SendPart(const void* data, size_t bytes, int flags) {
  bool looked_again = false;
  while (::zmq_send(socket_, data, bytes, flags | ZMQ_DONTWAIT) < 0) {
    const int error = zmq_errno();
    if (error == EINTR) continue;
    if (error == EAGAIN && !looked_again) {
      // A send without waiting looks for new connections only now and then; asking for events always does.
      looked_again = true;
      int events = 0;
      size_t length = sizeof events;
      ::zmq_getsockopt(socket_, ZMQ_EVENTS, &events, &length);
      continue;
    }
    if (error == EHOSTUNREACH) return UnavailableError("peer is unknown or its connection is gone");
    if (error == EAGAIN) return UnavailableError("peer is not connected or its queue is full");
    return UnavailableError("send: {}", zmq_strerror(error));
  }
  return OkStatus();
}

Status ZmqSocket::Send(std::span<const std::byte> bytes) { return SendPart(bytes.data(), bytes.size(), 0); }

Status ZmqSocket::SendTo(std::string_view routing_id, std::span<const std::byte> bytes) {
  RETURN_IF_ERROR(SendPart(routing_id.data(), routing_id.size(), ZMQ_SNDMORE));
  return SendPart(bytes.data(), bytes.size(), 0);
}

std::optional<std::vector<std::string>> ZmqSocket::Receive() {
  std::vector<std::string> parts;
  zmq_msg_t part;
  bool more = true;
  while (more) {
    ::zmq_msg_init(&part);
    while (::zmq_msg_recv(&part, socket_, ZMQ_DONTWAIT) < 0) {
      if (zmq_errno() == EINTR) continue;
      ::zmq_msg_close(&part);
      return std::nullopt;  // nothing there; the parts of a message arrive together
    }
    if (parts.size() < kPartsMax) {
      parts.emplace_back(static_cast<const char*>(::zmq_msg_data(&part)), ::zmq_msg_size(&part));
    }
    more = ::zmq_msg_more(&part) != 0;
    ::zmq_msg_close(&part);
  }
  return parts;
}

StatusOr<ZmqSocket> ZmqSocket::Monitor() {
  static std::atomic<uint64_t> next_monitor{1};
  const std::string endpoint = "inproc://monitor-" + std::to_string(next_monitor.fetch_add(1));
  constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                          ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                          ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  if (::zmq_socket_monitor(socket_, endpoint.c_str(), kEvents) != 0) {
    return ResourceExhaustedError("ZeroMQ monitor: {}", zmq_strerror(zmq_errno()));
  }
  ASSIGN_OR_RETURN(ZmqSocket pair, Open(*fabric_, ZmqType::kPair, {}));
  RETURN_IF_ERROR(pair.Connect(endpoint));
  return pair;
}

LinkEvent ParseLinkEvent(const std::vector<std::string>& parts) {
  uint16_t event = 0;
  if (parts.empty() || parts[0].size() < sizeof event) return LinkEvent::kOther;
  std::memcpy(&event, parts[0].data(), sizeof event);
  switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      return LinkEvent::kUp;
    case ZMQ_EVENT_DISCONNECTED:
      return LinkEvent::kDown;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return LinkEvent::kHandshakeFailed;
    default:
      return LinkEvent::kOther;
  }
}

}  // namespace paceline
