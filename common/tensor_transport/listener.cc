#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>

#include "common/base/log.h"
#include "common/tensor_transport/edge_hello.h"
#include "common/tensor_transport/shm_channel.h"
#include "common/tensor_transport/socket_io.h"
#include "common/tensor_transport/tcp_channel.h"
#include "common/tensor_transport/tensor_channel.h"

namespace paceline {
namespace {

constexpr int kBacklog = 64;
// Connections whose hello is awaited at a time; the oldest gives way, so a crowd of silent ones cannot keep
// the right peer out.
constexpr size_t kPendingMax = 64;
constexpr Duration kHelloTimeout = 2s;
// The right peer was answered: it confirms at once or is gone.
constexpr Duration kConfirmTimeout = 1s;
// After the system refused a descriptor, the backlog stays readable: look again later instead of spinning.
constexpr Duration kAcceptPause = 50ms;

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// A file without a listener behind it is what a killed process left: removed. A living one is respected.
Status ClearUnixPath(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return FailedPreconditionError("tensor listener: {} exists and is no socket: remove it", path);
  }
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = UnixAddress(path);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EAGAIN) {
    return FailedPreconditionError("tensor listener: {} is in use by a running process", path);
  }
  ::unlink(path.c_str());
  return OkStatus();
}

StatusOr<UniqueFd> ListenUnix(const std::string& path) {
  RETURN_IF_ERROR(ClearUnixPath(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = UnixAddress(path);
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return UnavailableError("tensor listener: unix:{}: {}", path, ErrnoText());
  }
  return fd;
}

StatusOr<UniqueFd> ListenTcpPort(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return InvalidArgumentError("tensor listener: host {}: {}", host, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (!fd.valid() || ::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) {
      return FailedPreconditionError("tensor listener: tcp:{}:{} is in use by another process", host, port);
    }
    return UnavailableError("tensor listener: tcp:{}:{}: {}", host, port, ErrnoText());
  }
  return fd;
}

StatusOr<UniqueFd> ListenTcp(const TensorAddress& address) {
  Status last = OkStatus();
  for (uint32_t port = address.port_first; port <= address.port_last; ++port) {
    StatusOr<UniqueFd> fd = ListenTcpPort(address.host, static_cast<uint16_t>(port));
    if (fd.ok() || fd.status().code() != absl::StatusCode::kFailedPrecondition) return fd;
    last = fd.status();
  }
  if (address.port_first == address.port_last) return last;
  return FailedPreconditionError("tensor listener: tcp:{}: every port of {}-{} is in use", address.host,
                                 address.port_first, address.port_last);
}

uint16_t BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  const auto port = address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                                  : reinterpret_cast<sockaddr_in*>(&address)->sin_port;
  return ntohs(port);
}

// The folder's mode keeps others out; this holds even where somebody opened it up.
bool IsSameUser(int unix_socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(unix_socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

class SocketListener final : public TensorListener {
 public:
  SocketListener(TensorAddress parsed, TensorLimits limits) : parsed_(std::move(parsed)), limits_(limits) {}

  ~SocketListener() override { StopListening(); }

  Status Start() {
    RETURN_IF_ERROR(EnsureListening());
    if (is_unix()) {
      address_ = "unix:" + parsed_.path;
      return OkStatus();
    }
    const bool v6 = parsed_.host.find(':') != std::string::npos;
    address_ = fmt::format("tcp:{}{}{}:{}", v6 ? "[" : "", parsed_.host, v6 ? "]" : "", BoundPort(fd_.get()));
    return OkStatus();
  }

  const std::string& address() const override { return address_; }
  uint64_t num_refused() const override { return num_refused_.load(std::memory_order_relaxed); }
  void Close() override { closed_.Raise(); }

  StatusOr<std::unique_ptr<TensorReceiver>> Accept(const EdgeId& expected, Instant deadline) override;

 private:
  struct Pending {
    UniqueFd fd;
    Instant deadline;
    std::array<std::byte, kEdgeHelloBytes> hello;
    size_t done = 0;
  };
  enum class Progress { kWaiting, kDropped, kAccepted };

  bool is_unix() const { return parsed_.kind == TensorAddress::Kind::kUnix; }
  Status EnsureListening();
  void StopListening();
  void TakeConnections();
  Progress ReadHello(Pending& pending, const EdgeId& expected);
  void Refuse(const Pending& pending, EdgeVerdict verdict, const std::string& reason);
  void CountRefused(std::string_view why);
  Status WaitForConfirm(int connection, Instant deadline) const;
  StatusOr<std::unique_ptr<TensorReceiver>> MakeReceiver(UniqueFd connection, Instant deadline);

  const TensorAddress parsed_;
  const TensorLimits limits_;
  std::string address_;
  UniqueFd fd_;  // invalid between an accepted peer and the next Accept, on unix sockets
  CloseFlag closed_;
  std::deque<Pending> pending_;
  Instant accept_paused_until_ = Instant::min();
  std::atomic<uint64_t> num_refused_{0};
};

Status SocketListener::EnsureListening() {
  if (fd_.valid()) return OkStatus();
  ASSIGN_OR_RETURN(fd_, is_unix() ? ListenUnix(parsed_.path) : ListenTcp(parsed_));
  return OkStatus();
}

void SocketListener::StopListening() {
  if (is_unix() && fd_.valid()) ::unlink(parsed_.path.c_str());
  fd_.Reset();
}

void SocketListener::CountRefused(std::string_view why) {
  num_refused_.fetch_add(1, std::memory_order_relaxed);
  LogDebug("tensor_connection_refused", "listener={} why=\"{}\"", address_, why);
}

void SocketListener::TakeConnections() {
  while (true) {
    UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      const bool empty = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
      if (!empty) accept_paused_until_ = MonotonicNow() + kAcceptPause;
      return;
    }
    if (is_unix() && !IsSameUser(fd.get())) {
      CountRefused("a process of another user");
      continue;
    }
    if (pending_.size() == kPendingMax) {
      CountRefused("too many connections without a hello");
      pending_.pop_front();
    }
    pending_.push_back({.fd = std::move(fd), .deadline = MonotonicNow() + kHelloTimeout, .hello = {}});
  }
}

void SocketListener::Refuse(const Pending& pending, EdgeVerdict verdict, const std::string& reason) {
  CountRefused(reason);
  const auto answer = EncodeAnswer({.verdict = verdict, .reason = reason, .limits = limits_});
  // One try: who does not read its refusal does not get it.
  ::send(pending.fd.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

SocketListener::Progress SocketListener::ReadHello(Pending& pending, const EdgeId& expected) {
  const ssize_t count = ::recv(pending.fd.get(), pending.hello.data() + pending.done,
                               pending.hello.size() - pending.done, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Progress::kWaiting;
  if (count <= 0) {
    CountRefused("closed before its hello");
    return Progress::kDropped;
  }
  pending.done += static_cast<size_t>(count);
  if (!MayBeHello(std::span(pending.hello).first(pending.done))) {
    CountRefused("no hello of a tensor edge");
    return Progress::kDropped;
  }
  if (pending.done < pending.hello.size()) return Progress::kWaiting;
  const StatusOr<EdgeId> offered = DecodeHello(pending.hello);
  if (!offered.ok()) {
    Refuse(pending, EdgeVerdict::kRefused, std::string(Message(offered.status())));
    return Progress::kDropped;
  }
  const EdgeAnswer answer = Judge(expected, *offered, limits_);
  if (answer.verdict == EdgeVerdict::kAccepted) return Progress::kAccepted;
  Refuse(pending, answer.verdict, answer.reason);
  return Progress::kDropped;
}

Status SocketListener::WaitForConfirm(int connection, Instant deadline) const {
  std::byte confirm{};
  size_t done = 0;
  RETURN_IF_ERROR(ReadFully(connection, closed_, std::span(&confirm, 1), done,
                            std::min(deadline, MonotonicNow() + kConfirmTimeout)));
  if (confirm == kEdgeConfirm) return OkStatus();
  return InvalidArgumentError("no confirmation of the answer");
}

StatusOr<std::unique_ptr<TensorReceiver>> SocketListener::MakeReceiver(UniqueFd connection,
                                                                       Instant deadline) {
  if (is_unix()) {
    ASSIGN_OR_RETURN(ShmLink link, OfferShmLink(std::move(connection), limits_, deadline));
    RETURN_IF_ERROR(WaitForConfirm(link.socket.get(), deadline));
    StopListening();  // no file stays behind while the edge is up
    return MakeShmReceiver(std::move(link), limits_);
  }
  const auto answer = EncodeAnswer({.verdict = EdgeVerdict::kAccepted, .reason = {}, .limits = limits_});
  size_t done = 0;
  RETURN_IF_ERROR(WriteFully(connection.get(), closed_, answer, {}, done, deadline));
  RETURN_IF_ERROR(WaitForConfirm(connection.get(), deadline));
  return MakeTcpReceiver(std::move(connection), limits_);
}

StatusOr<std::unique_ptr<TensorReceiver>> SocketListener::Accept(const EdgeId& expected, Instant deadline) {
  RETURN_IF_ERROR(EnsureListening());
  while (true) {
    if (closed_.raised()) return UnavailableError("tensor listener {}: closed", address_);
    std::vector<pollfd> fds = {{.fd = closed_.fd(), .events = POLLIN, .revents = 0}};
    const Instant now = MonotonicNow();
    const bool paused = now < accept_paused_until_;
    fds.push_back({.fd = paused ? -1 : fd_.get(), .events = POLLIN, .revents = 0});
    Instant next = paused ? std::min(deadline, accept_paused_until_) : deadline;
    for (const Pending& pending : pending_) {
      fds.push_back({.fd = pending.fd.get(), .events = POLLIN, .revents = 0});
      next = std::min(next, pending.deadline);
    }
    PollUntil(fds, next);
    // From the back, so that erasing leaves the indices in front.
    for (size_t i = pending_.size(); i-- > 0;) {
      Progress progress = Progress::kWaiting;
      if (fds[i + 2].revents != 0) progress = ReadHello(pending_[i], expected);
      if (progress == Progress::kWaiting && MonotonicNow() >= pending_[i].deadline) {
        CountRefused("no hello within 2 s");
        progress = Progress::kDropped;
      }
      if (progress == Progress::kWaiting) continue;
      UniqueFd connection = std::move(pending_[i].fd);
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
      if (progress != Progress::kAccepted) continue;
      StatusOr<std::unique_ptr<TensorReceiver>> receiver = MakeReceiver(std::move(connection), deadline);
      // A peer that died or gave up between hello and confirmation is one more refused connection.
      if (receiver.ok() || receiver.status().code() == absl::StatusCode::kResourceExhausted) return receiver;
      CountRefused(Message(receiver.status()));
    }
    if (fds[1].revents != 0) TakeConnections();
    if (MonotonicNow() >= deadline) {
      return DeadlineExceededError(
          "tensor listener {}: nobody connected for {} ({} other connections refused)", address_,
          DebugString(expected), num_refused());
    }
  }
}

}  // namespace

StatusOr<std::unique_ptr<TensorListener>> TensorListener::Listen(TensorListenSpec spec) {
  ASSIGN_OR_RETURN(TensorAddress parsed, ParseTensorAddress(spec.address));
  auto listener = std::make_unique<SocketListener>(std::move(parsed), spec.limits);
  RETURN_IF_ERROR(listener->Start());
  return listener;
}

}  // namespace paceline
