#include "common/tensor_transport/tcp_channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>

#include "common/tensor_transport/socket_io.h"

namespace paceline {
namespace {

constexpr uint32_t kMessageMagic = 0x544C4350;  // "PCLT"

struct Prefix {
  uint32_t magic = kMessageMagic;
  uint32_t header_bytes = 0;
  uint64_t payload_bytes = 0;
};
static_assert(sizeof(Prefix) == 16);

// Small messages leave at once; a host that vanished is noticed even on an idle edge, after about 5 s.
void SetOptions(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

class TcpSender final : public TensorSender {
 public:
  TcpSender(UniqueFd connection, const TensorLimits& limits)
      : connection_(std::move(connection)), limits_(limits) {
    SetOptions(connection_.get());
  }

  Status Send(std::span<const std::byte> header, std::span<const std::byte> payload,
              Instant deadline) override {
    RETURN_IF_ERROR(CheckMessageSize(header.size(), payload.size(), limits_));
    if (closed_.raised()) return UnavailableError("tensor edge: closed on this side");
    const Prefix prefix{.header_bytes = static_cast<uint32_t>(header.size()),
                        .payload_bytes = payload.size()};
    head_.resize(sizeof prefix + header.size());
    std::memcpy(head_.data(), &prefix, sizeof prefix);
    if (!header.empty()) std::memcpy(head_.data() + sizeof prefix, header.data(), header.size());
    size_t done = 0;
    const Status status = WriteFully(connection_.get(), closed_, head_, payload, done, deadline);
    // A message that has begun cannot be taken back: the receiver must not wait for its rest.
    if (!status.ok() && (done > 0 || status.code() != absl::StatusCode::kDeadlineExceeded)) Close();
    return status;
  }

  void Close() override {
    closed_.Raise();
    ::shutdown(connection_.get(), SHUT_RDWR);
  }

 private:
  const UniqueFd connection_;
  const TensorLimits limits_;
  CloseFlag closed_;
  std::vector<std::byte> head_;  // prefix and header, reused
};

class TcpReceiver final : public TensorReceiver {
 public:
  TcpReceiver(UniqueFd connection, const TensorLimits& limits)
      : connection_(std::move(connection)), limits_(limits) {
    SetOptions(connection_.get());
  }

  StatusOr<TensorMessage> Receive(Instant deadline) override {
    Status status = Read(deadline);
    if (status.ok()) {
      prefix_.reset();
      return std::move(message_);
    }
    // What has arrived of the message stays for the next call; anything but "not yet" is the end.
    if (status.code() != absl::StatusCode::kDeadlineExceeded) Close();
    return status;
  }

  void Close() override {
    closed_.Raise();
    ::shutdown(connection_.get(), SHUT_RDWR);
  }

 private:
  // Goes on where the last call stopped: prefix, header, payload.
  Status Read(Instant deadline) {
    if (closed_.raised()) return UnavailableError("tensor edge: closed on this side");
    if (!prefix_.has_value()) {
      RETURN_IF_ERROR(ReadFully(connection_.get(), closed_, prefix_bytes_, prefix_done_, deadline));
      RETURN_IF_ERROR(TakePrefix());
    }
    RETURN_IF_ERROR(ReadFully(connection_.get(), closed_, message_.header, header_done_, deadline));
    return ReadFully(connection_.get(), closed_, message_.payload.span(), payload_done_, deadline);
  }

  Status TakePrefix() {
    Prefix prefix;
    std::memcpy(&prefix, prefix_bytes_.data(), sizeof prefix);
    if (prefix.magic != kMessageMagic) {
      return DataLossError("tensor edge: a message begins with {:#x}, want {:#x}", prefix.magic,
                           kMessageMagic);
    }
    if (const Status size = CheckMessageSize(prefix.header_bytes, prefix.payload_bytes, limits_);
        !size.ok()) {
      return DataLossError("tensor edge: the peer announces too much: {}", Message(size));
    }
    message_.header.resize(prefix.header_bytes);
    message_.payload = AlignedBuffer(prefix.payload_bytes);
    prefix_done_ = header_done_ = payload_done_ = 0;
    prefix_ = prefix;
    return OkStatus();
  }

  const UniqueFd connection_;
  const TensorLimits limits_;
  CloseFlag closed_;
  std::array<std::byte, sizeof(Prefix)> prefix_bytes_{};
  std::optional<Prefix> prefix_;  // of the message that is arriving
  TensorMessage message_;
  size_t prefix_done_ = 0;
  size_t header_done_ = 0;
  size_t payload_done_ = 0;
};

}  // namespace

std::unique_ptr<TensorSender> MakeTcpSender(UniqueFd connection, const TensorLimits& limits) {
  return std::make_unique<TcpSender>(std::move(connection), limits);
}

std::unique_ptr<TensorReceiver> MakeTcpReceiver(UniqueFd connection, const TensorLimits& limits) {
  return std::make_unique<TcpReceiver>(std::move(connection), limits);
}

}  // namespace paceline
