#include "common/tensor_transport/shm_channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/tensor_transport/edge_hello.h"
#include "common/tensor_transport/socket_io.h"

namespace paceline {
namespace {

constexpr Duration kRecheck = 20ms;
// A payload that streams is published in pieces, so that the reader copies while the writer does.
constexpr uint64_t kPieceBytes = 256u << 10;

// What one side sleeps on: its flag in the ring, its eventfd, the peer's hang-up, its own Close.
class Side {
 public:
  Side(int socket, int own_event, int peer_event, std::atomic<uint32_t>& own_flag,
       std::atomic<uint32_t>& peer_flag)
      : socket_(socket),
        own_event_(own_event),
        peer_event_(peer_event),
        own_flag_(own_flag),
        peer_flag_(peer_flag) {}

  // Called after every change of the ring. Exchange here and in Wait are sequentially consistent
  // read-modify-writes of one flag, so one of the two comes first: either we see the flag, or the peer,
  // looking once more after it raised the flag, sees the change. (Fences would do too, but ThreadSanitizer
  // does not know them.)
  void WakePeer() {
    if (peer_flag_.exchange(0, std::memory_order_seq_cst) == 0) return;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t bytes = ::write(peer_event_, &one, sizeof one);
  }

  // Sleeps until something may have changed. `ready` is asked once more with the flag up. DeadlineExceeded,
  // or Unavailable after Close; a peer that is gone is only noted: what it left is still to be read.
  template <typename Ready>
  Status Wait(Ready ready, Instant deadline) {
    own_flag_.exchange(1, std::memory_order_seq_cst);
    if (!ready() && !peer_gone_ && !closed_.raised()) {
      pollfd fds[] = {{.fd = own_event_, .events = POLLIN, .revents = 0},
                      {.fd = socket_, .events = POLLRDHUP, .revents = 0},
                      {.fd = closed_.fd(), .events = POLLIN, .revents = 0}};
      PollUntil(fds, std::min(deadline, MonotonicNow() + kRecheck));
      if (fds[0].revents != 0) Drain();
      if (fds[1].revents != 0) peer_gone_ = true;
    }
    own_flag_.store(0, std::memory_order_relaxed);
    if (closed_.raised()) return UnavailableError("tensor edge: closed on this side");
    if (MonotonicNow() >= deadline && !ready()) return DeadlineExceededError("tensor edge: deadline passed");
    return OkStatus();
  }

  // Without waiting; for a side that never has to wait.
  bool PeerGone() {
    pollfd fd{.fd = socket_, .events = POLLRDHUP, .revents = 0};
    if (::poll(&fd, 1, 0) > 0) peer_gone_ = true;
    return peer_gone_;
  }
  bool peer_known_gone() const { return peer_gone_; }
  bool closed() const { return closed_.raised(); }

  // From any thread.
  void Close() {
    closed_.Raise();
    ::shutdown(socket_, SHUT_RDWR);
  }

 private:
  void Drain() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t bytes = ::read(own_event_, &count, sizeof count);
  }

  const int socket_;
  const int own_event_;
  const int peer_event_;
  std::atomic<uint32_t>& own_flag_;
  std::atomic<uint32_t>& peer_flag_;
  CloseFlag closed_;
  bool peer_gone_ = false;
};

Status PeerIsGone() { return UnavailableError("tensor edge: the peer closed it or died"); }
Status ClosedHere() { return UnavailableError("tensor edge: closed on this side"); }

class ShmSender final : public TensorSender {
 public:
  ShmSender(ShmLink link, const TensorLimits& limits)
      : link_(std::move(link)),
        limits_(limits),
        headers_(link_.ring->HeaderLane()),
        payloads_(link_.ring->PayloadLane()),
        side_(link_.socket.get(), link_.space_ready.get(), link_.data_ready.get(),
              link_.ring->control().writer_waits, link_.ring->control().reader_waits) {}

  Status Send(std::span<const std::byte> header, std::span<const std::byte> payload,
              Instant deadline) override {
    RETURN_IF_ERROR(CheckMessageSize(header.size(), payload.size(), limits_));
    if (side_.closed()) return ClosedHere();
    if (side_.PeerGone()) return PeerIsGone();
    const bool streams = payload.size() > payloads_.capacity();
    const Status room = WaitToBegin(header.size(), streams ? 0 : payload.size(), deadline);
    if (!room.ok()) {
      // Nothing has left yet: a deadline leaves the edge whole.
      if (room.code() != absl::StatusCode::kDeadlineExceeded) Close();
      return room;
    }
    if (!streams) {
      payloads_.CopyIn(0, payload);
      payloads_.Publish(payload.size());
      PublishHeader(header, payload.size());
      return OkStatus();
    }
    PublishHeader(header, payload.size());
    const Status streamed = Stream(payload, deadline);
    if (!streamed.ok()) Close();  // begun and not finished
    return streamed;
  }

  void Close() override { side_.Close(); }

 private:
  Status WaitToBegin(uint64_t header_bytes, uint64_t payload_bytes, Instant deadline) {
    RETURN_IF_ERROR(WaitForRoom(headers_, sizeof(ShmRecord) + header_bytes, deadline));
    return WaitForRoom(payloads_, payload_bytes, deadline);
  }

  Status WaitForRoom(const ShmLane& lane, uint64_t bytes, Instant deadline) {
    while (true) {
      ASSIGN_OR_RETURN(const uint64_t writable, lane.Writable());
      if (writable >= bytes) return OkStatus();
      if (side_.peer_known_gone()) return PeerIsGone();
      RETURN_IF_ERROR(side_.Wait(
          [&] {
            const auto now_writable = lane.Writable();
            return !now_writable.ok() || *now_writable >= bytes;
          },
          deadline));
    }
  }

  void PublishHeader(std::span<const std::byte> header, uint64_t payload_bytes) {
    const ShmRecord record{.header_bytes = header.size(), .payload_bytes = payload_bytes};
    headers_.CopyIn(0, std::as_bytes(std::span(&record, 1)));
    headers_.CopyIn(sizeof record, header);
    headers_.Publish(sizeof record + header.size());
    side_.WakePeer();
  }

  Status Stream(std::span<const std::byte> payload, Instant deadline) {
    const uint64_t piece_max = std::min(kPieceBytes, payloads_.capacity());
    while (!payload.empty()) {
      const uint64_t piece = std::min<uint64_t>(piece_max, payload.size());
      RETURN_IF_ERROR(WaitForRoom(payloads_, piece, deadline));
      payloads_.CopyIn(0, payload.first(piece));
      payloads_.Publish(piece);
      side_.WakePeer();
      payload = payload.subspan(piece);
    }
    return OkStatus();
  }

  const ShmLink link_;
  const TensorLimits limits_;
  ShmLane headers_;
  ShmLane payloads_;
  Side side_;
};

class ShmReceiver final : public TensorReceiver {
 public:
  ShmReceiver(ShmLink link, const TensorLimits& limits)
      : link_(std::move(link)),
        limits_(limits),
        headers_(link_.ring->HeaderLane()),
        payloads_(link_.ring->PayloadLane()),
        side_(link_.socket.get(), link_.data_ready.get(), link_.space_ready.get(),
              link_.ring->control().reader_waits, link_.ring->control().writer_waits) {}

  StatusOr<TensorMessage> Receive(Instant deadline) override {
    const Status status = Read(deadline);
    if (status.ok()) {
      TensorMessage message = std::move(*arriving_);
      arriving_.reset();
      return message;
    }
    if (status.code() != absl::StatusCode::kDeadlineExceeded) Close();
    return status;
  }

  void Close() override { side_.Close(); }

 private:
  // Goes on where the last call stopped.
  Status Read(Instant deadline) {
    if (side_.closed()) return ClosedHere();
    if (!arriving_.has_value()) {
      RETURN_IF_ERROR(WaitForBytes(headers_, sizeof(ShmRecord), deadline));
      RETURN_IF_ERROR(TakeHeader());
    }
    while (payload_done_ < arriving_->payload.size()) {
      RETURN_IF_ERROR(WaitForBytes(payloads_, 1, deadline));
      ASSIGN_OR_RETURN(const uint64_t readable, payloads_.Readable());
      const uint64_t piece = std::min<uint64_t>(readable, arriving_->payload.size() - payload_done_);
      payloads_.CopyOut(0, arriving_->payload.span().subspan(payload_done_, piece));
      payloads_.Consume(piece);
      payload_done_ += piece;
      side_.WakePeer();
    }
    return OkStatus();
  }

  Status WaitForBytes(const ShmLane& lane, uint64_t bytes, Instant deadline) {
    while (true) {
      // Asked before the lane: what a dying peer wrote last is then seen.
      const bool peer_gone = side_.peer_known_gone();
      ASSIGN_OR_RETURN(const uint64_t readable, lane.Readable());
      if (readable >= bytes) return OkStatus();
      if (peer_gone) return PeerIsGone();
      RETURN_IF_ERROR(side_.Wait(
          [&] {
            const auto now_readable = lane.Readable();
            return !now_readable.ok() || *now_readable >= bytes;
          },
          deadline));
    }
  }

  // Lengths are copied out of shared memory before they are checked, so that they cannot change afterwards.
  Status TakeHeader() {
    ShmRecord record;
    headers_.CopyOut(0, std::as_writable_bytes(std::span(&record, 1)));
    if (const Status size = CheckMessageSize(record.header_bytes, record.payload_bytes, limits_);
        !size.ok()) {
      return DataLossError("tensor edge: the peer announces too much: {}", Message(size));
    }
    ASSIGN_OR_RETURN(const uint64_t readable, headers_.Readable());
    if (readable < sizeof record + record.header_bytes) {
      return DataLossError("tensor edge: half a header was published");
    }
    arriving_.emplace();
    arriving_->header.resize(record.header_bytes);
    headers_.CopyOut(sizeof record, arriving_->header);
    headers_.Consume(sizeof record + record.header_bytes);
    arriving_->payload = AlignedBuffer(record.payload_bytes);
    payload_done_ = 0;
    side_.WakePeer();
    return OkStatus();
  }

  const ShmLink link_;
  const TensorLimits limits_;
  ShmLane headers_;
  ShmLane payloads_;
  Side side_;
  std::optional<TensorMessage> arriving_;
  uint64_t payload_done_ = 0;
};

Status SendWithDescriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors,
                           Instant deadline) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> space{};
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(control), descriptors.data(), descriptors.size_bytes());
  // A fresh socket has room for 288 bytes; anything else is a peer that plays games.
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(bytes.size())) return OkStatus();
  return UnavailableError("tensor edge: sending the shared memory: {}{}",
                          sent < 0 ? ErrnoText() : "cut short",
                          MonotonicNow() >= deadline ? " (deadline passed)" : "");
}

}  // namespace

std::unique_ptr<TensorSender> MakeShmSender(ShmLink link, const TensorLimits& limits) {
  return std::make_unique<ShmSender>(std::move(link), limits);
}

std::unique_ptr<TensorReceiver> MakeShmReceiver(ShmLink link, const TensorLimits& limits) {
  return std::make_unique<ShmReceiver>(std::move(link), limits);
}

StatusOr<ShmLink> OfferShmLink(UniqueFd socket, const TensorLimits& limits, Instant deadline) {
  ShmLink link;
  link.socket = std::move(socket);
  link.data_ready.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  link.space_ready.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!link.data_ready.valid() || !link.space_ready.valid())
    return UnavailableError("eventfd: {}", ErrnoText());
  ASSIGN_OR_RETURN(link.ring, ShmRing::Create(limits));
  const auto answer = EncodeAnswer({.verdict = EdgeVerdict::kAccepted, .reason = {}, .limits = limits});
  const int descriptors[] = {link.ring->fd(), link.data_ready.get(), link.space_ready.get()};
  RETURN_IF_ERROR(SendWithDescriptors(link.socket.get(), answer, descriptors, deadline));
  return link;
}

StatusOr<ShmLink> TakeShmLink(UniqueFd socket, UniqueFd memory, UniqueFd data_ready, UniqueFd space_ready,
                              const TensorLimits& limits) {
  ShmLink link;
  ASSIGN_OR_RETURN(link.ring, ShmRing::Map(std::move(memory), limits));
  link.socket = std::move(socket);
  link.data_ready = std::move(data_ready);
  link.space_ready = std::move(space_ready);
  return link;
}

}  // namespace paceline
