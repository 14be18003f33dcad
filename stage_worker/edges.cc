#include "stage_worker/edges.h"

#include <xxhash.h>

#include "common/actor/event_loop.h"
#include "common/transport/codec.h"

namespace paceline {
namespace {

// Waits are cut into slices so that a closing edge is noticed also where Close cannot reach (connecting).
constexpr Duration kSlice = 200ms;

uint64_t Checksum(std::span<const std::byte> payload) {
  const uint64_t hash = XXH3_64bits(payload.data(), payload.size());
  return hash == 0 ? 1 : hash;  // 0 means "none"
}

Status CheckPayload(const FrameHeader& header, std::span<const std::byte> payload) {
  ASSIGN_OR_RETURN(const uint64_t bytes, FramePayloadBytes(header));
  if (payload.size() != bytes) {
    return DataLossError("step {}: the header states {} bytes of activations, {} came", header.step, bytes,
                         payload.size());
  }
  if (header.payload_checksum != 0 && header.payload_checksum != Checksum(payload)) {
    return DataLossError("step {}: the activations' checksum differs", header.step);
  }
  return OkStatus();
}

}  // namespace

InboundEdge::InboundEdge(TensorListener& listener, const EdgeId& edge, Callbacks callbacks)
    : listener_(listener), edge_(edge), callbacks_(std::move(callbacks)), thread_([this] { Run(); }) {}

InboundEdge::~InboundEdge() {
  closing_ = true;
  {
    std::lock_guard lock(mutex_);
    if (receiver_ != nullptr) receiver_->Close();
  }
  thread_.join();
}

void InboundEdge::Run() {
  NameThisThread("edge-in");
  const Status status = AcceptAndReceive();
  if (!closing_) callbacks_.on_failed(Annotate(status, DebugString(edge_)));
}

StatusOr<TensorReceiver*> InboundEdge::Accept() {
  const Instant deadline = MonotonicNow() + kEdgeUpTimeout;
  while (!closing_) {
    const Instant now = MonotonicNow();
    StatusOr<std::unique_ptr<TensorReceiver>> receiver =
        listener_.Accept(edge_, std::min(deadline, now + kSlice));
    if (receiver.ok()) {
      std::lock_guard lock(mutex_);
      receiver_ = *std::move(receiver);
      return receiver_.get();
    }
    if (receiver.status().code() != absl::StatusCode::kDeadlineExceeded) return receiver.status();
    if (now >= deadline)
      return DeadlineExceededError("nobody connected within {} s", ToSeconds(kEdgeUpTimeout));
  }
  return CancelledError("closing");
}

Status InboundEdge::AcceptAndReceive() {
  ASSIGN_OR_RETURN(TensorReceiver * receiver, Accept());
  callbacks_.on_up();
  while (!closing_) {
    StatusOr<TensorMessage> message = receiver->Receive(MonotonicNow() + 10s);
    if (!message.ok()) {
      if (message.status().code() == absl::StatusCode::kDeadlineExceeded) continue;  // an idle server
      return message.status();
    }
    ASSIGN_OR_RETURN(FrameHeader header, DecodeFrame(message->header));
    RETURN_IF_ERROR(CheckPayload(header, message->payload.span()));
    callbacks_.on_frame(std::move(header), std::move(message->payload));
  }
  return CancelledError("closing");
}

OutboundEdge::OutboundEdge(std::string address, const EdgeId& edge, Callbacks callbacks)
    : address_(std::move(address)),
      edge_(edge),
      callbacks_(std::move(callbacks)),
      thread_([this] { Run(); }) {}

OutboundEdge::~OutboundEdge() {
  closing_ = true;
  frames_.Close();
  {
    std::lock_guard lock(mutex_);
    if (sender_ != nullptr) sender_->Close();
  }
  thread_.join();
}

void OutboundEdge::Run() {
  NameThisThread("edge-out");
  const Status status = ConnectAndSend();
  frames_.Close();
  if (!closing_) callbacks_.on_failed(Annotate(status, DebugString(edge_)));
}

Status OutboundEdge::ConnectAndSend() {
  const Instant deadline = MonotonicNow() + kEdgeUpTimeout;
  TensorSender* sender = nullptr;
  while (sender == nullptr) {
    if (closing_) return CancelledError("closing");
    const Instant now = MonotonicNow();
    StatusOr<std::unique_ptr<TensorSender>> connected =
        ConnectTensor(address_, edge_, std::min(deadline, now + kSlice));
    if (connected.ok()) {
      std::lock_guard lock(mutex_);
      sender_ = *std::move(connected);
      sender = sender_.get();
    } else if (connected.status().code() != absl::StatusCode::kDeadlineExceeded || now >= deadline) {
      return Annotate(connected.status(), address_);
    }
  }
  callbacks_.on_up();
  while (auto frame = frames_.Pop(Instant::max())) {
    if (closing_) return CancelledError("closing");
    RETURN_IF_ERROR(SendOne(*sender, *frame));
  }
  return CancelledError("closing");
}

Status OutboundEdge::SendOne(TensorSender& sender, const OutboundFrame& frame) {
  FrameHeader header = frame.header;
  ASSIGN_OR_RETURN(const uint64_t bytes, FramePayloadBytes(header));
  std::span<const std::byte> payload;
  if (frame.payload != nullptr) {
    payload = frame.payload->span();
  } else {
    if (zeros_.size() < bytes) zeros_.resize(bytes);
    payload = std::span(zeros_).first(bytes);
  }
  if (payload.size() != bytes) {
    return InternalError("step {}: {} bytes of activations for a header of {}", header.step, payload.size(),
                         bytes);
  }
  header.payload_checksum = Checksum(payload);
  return sender.Send(EncodeFrame(header), payload, MonotonicNow() + kSendTimeout);
}

}  // namespace paceline
