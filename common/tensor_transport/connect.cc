#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "common/tensor_transport/edge_hello.h"
#include "common/tensor_transport/shm_channel.h"
#include "common/tensor_transport/socket_io.h"
#include "common/tensor_transport/tcp_channel.h"
#include "common/tensor_transport/tensor_channel.h"

namespace paceline {
namespace {

constexpr Duration kRetryPause = 20ms;

// The connect itself, from a non-blocking socket.
Status ConnectSocket(int fd, const sockaddr* address, socklen_t length, Instant deadline) {
  if (::connect(fd, address, length) == 0) return OkStatus();
  if (errno != EINPROGRESS) return UnavailableError("connect: {}", ErrnoText());
  pollfd wait{.fd = fd, .events = POLLOUT, .revents = 0};
  if (!PollUntil(std::span(&wait, 1), deadline)) return UnavailableError("connect: no answer");
  int error = 0;
  socklen_t error_length = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_length);
  if (error != 0) return UnavailableError("connect: {}", std::strerror(error));
  return OkStatus();
}

StatusOr<UniqueFd> ConnectUnix(const std::string& path, Instant deadline) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return UnavailableError("socket: {}", ErrnoText());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  RETURN_IF_ERROR(
      ConnectSocket(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address, deadline));
  return fd;
}

StatusOr<UniqueFd> ConnectTcp(const TensorAddress& to, Instant deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(to.host.c_str(), std::to_string(to.port_first).c_str(), &hints, &found);
  if (error != 0) return UnavailableError("host {}: {}", to.host, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return UnavailableError("socket: {}", ErrnoText());
  RETURN_IF_ERROR(ConnectSocket(fd.get(), found->ai_addr, found->ai_addrlen, deadline));
  return fd;
}

// The answer with whatever descriptors came along (none over TCP).
struct Answer {
  EdgeAnswer edge;
  std::array<UniqueFd, 3> descriptors;
};

void KeepDescriptors(msghdr& message, std::array<UniqueFd, 3>& out) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr;
       control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);
      if (i < out.size()) out[i] = std::move(owned);
    }
  }
}

StatusOr<Answer> ReadAnswer(int fd, Instant deadline) {
  Answer answer;
  std::array<std::byte, kEdgeAnswerBytes> bytes{};
  size_t done = 0;
  while (done < bytes.size()) {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> space{};
    iovec part{.iov_base = bytes.data() + done, .iov_len = bytes.size() - done};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    const ssize_t count = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count > 0) {
      KeepDescriptors(message, answer.descriptors);
      done += static_cast<size_t>(count);
    } else if (count == 0) {
      return UnavailableError("the listener closed the connection");
    } else if (errno == EAGAIN) {
      pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
      if (!PollUntil(std::span(&wait, 1), deadline)) return UnavailableError("the listener does not answer");
    } else if (errno != EINTR) {
      return UnavailableError("reading the answer: {}", ErrnoText());
    }
  }
  ASSIGN_OR_RETURN(answer.edge, DecodeAnswer(bytes));
  return answer;
}

// One try. Unavailable: try again; anything else is final.
StatusOr<std::unique_ptr<TensorSender>> TryOnce(const TensorAddress& to, const EdgeId& edge,
                                                Instant deadline) {
  const bool is_unix = to.kind == TensorAddress::Kind::kUnix;
  ASSIGN_OR_RETURN(UniqueFd fd, is_unix ? ConnectUnix(to.path, deadline) : ConnectTcp(to, deadline));
  const auto hello = EncodeHello(edge);
  if (::send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size())) {
    return UnavailableError("sending the hello: {}", ErrnoText());
  }
  ASSIGN_OR_RETURN(Answer answer, ReadAnswer(fd.get(), deadline));
  if (answer.edge.verdict == EdgeVerdict::kNotYet) return UnavailableError("{}", answer.edge.reason);
  if (answer.edge.verdict == EdgeVerdict::kRefused) return FailedPreconditionError("{}", answer.edge.reason);
  if (::send(fd.get(), &kEdgeConfirm, 1, MSG_NOSIGNAL) != 1) {
    return UnavailableError("confirming the answer: {}", ErrnoText());
  }
  if (!is_unix) return MakeTcpSender(std::move(fd), answer.edge.limits);
  auto& [memory, data_ready, space_ready] = answer.descriptors;
  if (!space_ready.valid()) return DataLossError("the listener sent no shared memory");
  ASSIGN_OR_RETURN(ShmLink link, TakeShmLink(std::move(fd), std::move(memory), std::move(data_ready),
                                             std::move(space_ready), answer.edge.limits));
  return MakeShmSender(std::move(link), answer.edge.limits);
}

}  // namespace

StatusOr<std::unique_ptr<TensorSender>> ConnectTensor(const std::string& address, const EdgeId& edge,
                                                      Instant deadline) {
  ASSIGN_OR_RETURN(const TensorAddress to, ParseTensorAddress(address));
  while (true) {
    StatusOr<std::unique_ptr<TensorSender>> sender = TryOnce(to, edge, deadline);
    if (sender.ok()) return sender;
    const std::string what = fmt::format("tensor edge {} to {}", DebugString(edge), address);
    if (sender.status().code() != absl::StatusCode::kUnavailable) return Annotate(sender.status(), what);
    if (MonotonicNow() + kRetryPause >= deadline) {
      return DeadlineExceededError("{}: not up in time: {}", what, Message(sender.status()));
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

}  // namespace paceline
