#include "common/tensor_transport/socket_io.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "common/base/check.h"

namespace paceline {
namespace {

StatusOr<uint16_t> ParsePort(const std::string& address, std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgumentError("tensor address {}: \"{}\" is no port (0 to 65535)", address, text);
  }
  return port;
}

StatusOr<TensorAddress> ParseTcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(4, colon < 4 ? 0 : colon - 4);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (colon < 4 || host.empty()) {
    return InvalidArgumentError("tensor address {}: want tcp:host:port", address);
  }
  const std::string_view ports = std::string_view(address).substr(colon + 1);
  const size_t dash = ports.find('-');
  TensorAddress out{.kind = TensorAddress::Kind::kTcp, .path = {}, .host = std::move(host)};
  ASSIGN_OR_RETURN(out.port_first, ParsePort(address, ports.substr(0, dash)));
  out.port_last = out.port_first;
  if (dash != std::string_view::npos) {
    ASSIGN_OR_RETURN(out.port_last, ParsePort(address, ports.substr(dash + 1)));
    if (out.port_first == 0 || out.port_last < out.port_first) {
      return InvalidArgumentError("tensor address {}: a range is first-last, from 1 upwards", address);
    }
  }
  return out;
}

// One wait for `events` on fd, or for the flag.
Status WaitFor(int fd, short events, const CloseFlag& flag, Instant deadline) {
  pollfd fds[] = {{.fd = fd, .events = events, .revents = 0},
                  {.fd = flag.fd(), .events = POLLIN, .revents = 0}};
  if (!PollUntil(fds, deadline)) return DeadlineExceededError("tensor edge: deadline passed");
  if (flag.raised()) return UnavailableError("tensor edge: closed on this side");
  return OkStatus();
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

CloseFlag::CloseFlag() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(fd_.valid()) << "eventfd: " << ErrnoText();
}

void CloseFlag::Raise() {
  raised_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t bytes = ::write(fd_.get(), &one, sizeof one);
}

bool PollUntil(std::span<pollfd> fds, Instant deadline) {
  while (true) {
    const Duration left = std::max(Duration::zero(), Duration(deadline - MonotonicNow()));
    // A day is as good as for ever, and does not overflow.
    const auto wait = std::chrono::duration_cast<std::chrono::seconds>(std::min<Duration>(left, 24h));
    const timespec timeout{.tv_sec = wait.count(), .tv_nsec = (std::min<Duration>(left, 24h) - wait).count()};
    const int ready = ::ppoll(fds.data(), fds.size(), &timeout, nullptr);
    if (ready > 0) return true;
    CHECK(ready == 0 || errno == EINTR) << "ppoll: " << ErrnoText();
    if (MonotonicNow() >= deadline) return false;
  }
}

Status ReadFully(int fd, const CloseFlag& flag, std::span<std::byte> bytes, size_t& done, Instant deadline) {
  while (done < bytes.size()) {
    if (flag.raised()) return UnavailableError("tensor edge: closed on this side");
    const ssize_t count = ::recv(fd, bytes.data() + done, bytes.size() - done, MSG_DONTWAIT);
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (count == 0) {
      return UnavailableError("tensor edge: the peer closed the connection");
    } else if (WouldBlock(errno)) {
      RETURN_IF_ERROR(WaitFor(fd, POLLIN, flag, deadline));
    } else if (errno != EINTR) {
      return UnavailableError("tensor edge: the peer is gone: {}", ErrnoText());
    }
  }
  return OkStatus();
}

Status WriteFully(int fd, const CloseFlag& flag, std::span<const std::byte> head,
                  std::span<const std::byte> body, size_t& done, Instant deadline) {
  const auto part = [](std::span<const std::byte> bytes, size_t skip) {
    const auto rest = bytes.subspan(std::min(skip, bytes.size()));
    return iovec{.iov_base = const_cast<std::byte*>(rest.data()), .iov_len = rest.size()};
  };
  while (done < head.size() + body.size()) {
    if (flag.raised()) return UnavailableError("tensor edge: closed on this side");
    iovec parts[] = {part(head, done), part(body, done > head.size() ? done - head.size() : 0)};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t count = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (WouldBlock(errno)) {
      RETURN_IF_ERROR(WaitFor(fd, POLLOUT, flag, deadline));
    } else if (errno != EINTR) {
      return UnavailableError("tensor edge: the peer is gone: {}", ErrnoText());
    }
  }
  return OkStatus();
}

Status CheckMessageSize(uint64_t header_bytes, uint64_t payload_bytes, const TensorLimits& limits) {
  if (header_bytes > limits.header_bytes_max) {
    return InvalidArgumentError("tensor edge: header of {} bytes, at most {}", header_bytes,
                                limits.header_bytes_max);
  }
  if (payload_bytes > limits.payload_bytes_max) {
    return InvalidArgumentError("tensor edge: payload of {} bytes, at most {}", payload_bytes,
                                limits.payload_bytes_max);
  }
  return OkStatus();
}

std::string ErrnoText() { return std::strerror(errno); }

StatusOr<TensorAddress> ParseTensorAddress(const std::string& address) {
  if (address.starts_with("tcp:")) return ParseTcp(address);
  if (!address.starts_with("unix:/")) {
    return InvalidArgumentError("tensor address \"{}\": want unix:/path or tcp:host:port", address);
  }
  const std::string path = address.substr(5);
  constexpr size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kPathMax) {
    return InvalidArgumentError(
        "tensor address {}: a path of {} bytes, at most {}: use a shorter runtime folder", address,
        path.size(), kPathMax);
  }
  return TensorAddress{.kind = TensorAddress::Kind::kUnix, .path = path, .host = {}};
}

}  // namespace paceline
