// TensorChannel: one directed edge of the tensor plane, from a stage to the next (or to the draft worker).
//
// A message is a header (opaque bytes here: an encoded FrameHeader) and a payload (rows of activations).
// Makers: shared memory ("unix:/run/x/stage-1.sock", same host), TCP ("tcp:10.0.0.2:4010"), in process
// (tests and one-process runs). Who receives, listens; who sends, connects; either may start first.
//
//   ASSIGN_OR_RETURN(auto listener, TensorListener::Listen({.address = "unix:/run/x/stage-1.sock"}));
//   ASSIGN_OR_RETURN(auto receiver, listener->Accept(edge, now + 30s));             // stage 1
//   ASSIGN_OR_RETURN(auto sender, ConnectTensor(listener_address, edge, now + 30s));  // stage 0
//   RETURN_IF_ERROR(sender->Send(header, payload, now + 5s));
//   ASSIGN_OR_RETURN(TensorMessage message, receiver->Receive(now + 100ms));
//
// Ordering: FIFO, each message exactly once. Nothing is reordered, dropped or merged.
//
// Threading: one thread sends, one thread receives; Close may be called from any thread at any time and
// wakes a blocked Send, Receive or Accept within a few milliseconds. Destruction only when no call is inside.
//
// Limits: a header has at most limits.header_bytes_max bytes, a payload limits.payload_bytes_max; the
// listener's limits hold for both ends. The ring (or socket buffer) has a fixed size; a payload larger than
// it streams through while the receiver reads. Send blocks when it is full: the sender feels the receiver's
// pace, nothing piles up.
//
// Failure: a message that has begun to travel is finished, or the edge is torn down: Send answers
// DeadlineExceeded with the edge intact only if nothing of the message left, else the edge is closed and
// every later call answers Unavailable. A peer that died is Unavailable at once on the same host (its socket
// hangs up), on other hosts when TCP says so or the deadline passes; complete messages that arrived before
// are still delivered. Receive's DeadlineExceeded means "none yet" and never loses a part of a message.
// Bytes that break the framing are DataLoss and close the edge. A connection with another hello (random
// bytes, another edge, an older generation) is refused by name; the listener goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/tensor/aligned_buffer.h"

namespace paceline {

struct TensorMessage {
  std::vector<std::byte> header;
  AlignedBuffer payload;
};

class TensorSender {
 public:
  virtual ~TensorSender() = default;
  // Blocks until the channel holds the whole message or the deadline passes.
  virtual Status Send(std::span<const std::byte> header, std::span<const std::byte> payload,
                      Instant deadline) = 0;
  virtual void Close() = 0;
};

class TensorReceiver {
 public:
  virtual ~TensorReceiver() = default;
  // DeadlineExceeded = none yet; Unavailable = the peer is gone or the edge was closed.
  virtual StatusOr<TensorMessage> Receive(Instant deadline) = 0;
  virtual void Close() = 0;
};

// Which edge of which generation a connection is for. The stages are ranks; kDrafterStage is the draft
// worker.
struct EdgeId {
  uint64_t coordinator_nonce = 0;
  uint32_t generation = 0;  // counter within that coordinator's life
  uint32_t from_stage = 0;
  uint32_t to_stage = 0;

  bool operator==(const EdgeId&) const = default;
};
inline constexpr uint32_t kDrafterStage = 0xffff'ffff;

// "stage 0 -> stage 1, generation 3"
std::string DebugString(const EdgeId& edge);

struct TensorLimits {
  uint32_t header_bytes_max = 1u << 20;
  uint64_t payload_bytes_max = 256ull << 20;
  uint64_t ring_bytes = 4ull << 20;  // payload lane of shared memory and of the in-process pair
};

struct TensorListenSpec {
  // "unix:/path" (shared memory; the folder must exist, mode 0700), "tcp:host:port" (port 0 = ephemeral) or
  // "tcp:host:first-last" (the first free port of the range).
  std::string address;
  TensorLimits limits;
};

// Owns the listening socket. The path of a unix socket exists while nobody is connected: it is unlinked as
// soon as the peer is accepted and made again by the next Accept (the next generation), so that a killed
// process leaves no file behind once its edge was up.
class TensorListener {
 public:
  // InvalidArgument: bad address; FailedPrecondition: in use by a living process; Unavailable: the system
  // refused (the text names the address).
  static StatusOr<std::unique_ptr<TensorListener>> Listen(TensorListenSpec spec);
  virtual ~TensorListener() = default;

  // What a peer connects to; the same through the listener's life, with the real port.
  virtual const std::string& address() const = 0;
  // Waits for the peer of this edge. Other connections are refused by name and dropped, slow ones after 2 s.
  virtual StatusOr<std::unique_ptr<TensorReceiver>> Accept(const EdgeId& expected, Instant deadline) = 0;
  virtual void Close() = 0;
  // Connections that Accept turned away: wrong hello, random bytes, silence.
  virtual uint64_t num_refused() const = 0;
};

// Tries again until the deadline while nobody listens there yet or the listener is still in an older
// generation. FailedPrecondition: the listener refused this edge (stale generation, another stage).
StatusOr<std::unique_ptr<TensorSender>> ConnectTensor(const std::string& address, const EdgeId& edge,
                                                      Instant deadline);

// Both ends in one process, same promises: for tests and for stages that share a process.
std::pair<std::unique_ptr<TensorSender>, std::unique_ptr<TensorReceiver>> MakeInProcessTensorPair(
    const TensorLimits& limits = {});

}  // namespace paceline
