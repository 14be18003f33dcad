// The tensor edges of one stage in one generation: frames come in from the stage before and go out to the
// next.
//
// InboundEdge has a thread that accepts the peer and then receives; OutboundEdge one that connects and then
// sends what is queued. Both are made anew for each generation (P16) and torn down by their destructor, which
// wakes whatever blocks. Callbacks run on the edge's thread: they post to the shell's loop.
//
// Ordering: FIFO, as the channel. Limits: the outbound queue holds `kOutboundFramesMax` frames, more than the
// plans that can be outstanding, so a full one is a broken peer. Failure: on_failed is called once, with the
// edge's name and the reason; the edge does nothing afterwards.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "common/base/bounded_queue.h"
#include "common/protocol/frame.h"
#include "common/tensor_transport/tensor_channel.h"

namespace paceline {

// How long an edge may take to come up: both ends got the same Reconfigure, seconds apart at most.
inline constexpr Duration kEdgeUpTimeout = 30s;
// How long one frame may take to leave. The receiver's compute is not in it: it queues what arrives.
inline constexpr Duration kSendTimeout = 60s;
inline constexpr size_t kOutboundFramesMax = 1024;

class InboundEdge {
 public:
  struct Callbacks {
    std::function<void()> on_up;
    std::function<void(FrameHeader, AlignedBuffer payload)> on_frame;
    std::function<void(Status)> on_failed;
  };

  // `listener` outlives the edge.
  InboundEdge(TensorListener& listener, const EdgeId& edge, Callbacks callbacks);
  ~InboundEdge();

 private:
  void Run();
  Status AcceptAndReceive();
  StatusOr<TensorReceiver*> Accept();

  TensorListener& listener_;
  const EdgeId edge_;
  const Callbacks callbacks_;
  std::atomic<bool> closing_{false};
  std::mutex mutex_;  // guards receiver_ against Close from another thread
  std::unique_ptr<TensorReceiver> receiver_;
  std::thread thread_;
};

class OutboundEdge {
 public:
  struct Callbacks {
    std::function<void()> on_up;
    std::function<void(Status)> on_failed;
  };
  struct OutboundFrame {
    FrameHeader header;
    std::shared_ptr<const AlignedBuffer> payload;  // null: rows of zeros
  };

  OutboundEdge(std::string address, const EdgeId& edge, Callbacks callbacks);
  ~OutboundEdge();

  // False: the queue is full or the edge failed.
  bool Send(OutboundFrame frame) { return frames_.TryPush(std::move(frame)); }

 private:
  void Run();
  Status ConnectAndSend();
  Status SendOne(TensorSender& sender, const OutboundFrame& frame);

  const std::string address_;
  const EdgeId edge_;
  const Callbacks callbacks_;
  BoundedQueue<OutboundFrame> frames_{kOutboundFramesMax};
  std::atomic<bool> closing_{false};
  std::mutex mutex_;  // guards sender_ against Close from another thread
  std::unique_ptr<TensorSender> sender_;
  std::vector<std::byte> zeros_;
  std::thread thread_;
};

}  // namespace paceline
