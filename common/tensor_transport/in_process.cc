#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "common/tensor_transport/socket_io.h"
#include "common/tensor_transport/tensor_channel.h"

namespace paceline {
namespace {

// What both ends share. Either end's Close, or its destruction, closes the pair.
struct Pipe {
  explicit Pipe(const TensorLimits& pipe_limits) : limits(pipe_limits) {}

  const TensorLimits limits;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<TensorMessage> messages;  // guarded by mutex, as are the next three
  uint64_t bytes = 0;                  // of payloads in `messages`
  bool sender_closed = false;
  bool receiver_closed = false;
};

class PipeSender final : public TensorSender {
 public:
  explicit PipeSender(std::shared_ptr<Pipe> pipe) : pipe_(std::move(pipe)) {}
  ~PipeSender() override { Close(); }

  Status Send(std::span<const std::byte> header, std::span<const std::byte> payload,
              Instant deadline) override {
    RETURN_IF_ERROR(CheckMessageSize(header.size(), payload.size(), pipe_->limits));
    TensorMessage message{.header = {header.begin(), header.end()}, .payload = AlignedBuffer(payload.size())};
    std::copy(payload.begin(), payload.end(), message.payload.data());
    std::unique_lock lock(pipe_->mutex);
    // A message larger than the ring passes alone, as it streams through a real one.
    const auto can_go = [&] {
      return closed() || pipe_->messages.empty() || pipe_->bytes + payload.size() <= pipe_->limits.ring_bytes;
    };
    if (!pipe_->changed.wait_until(lock, deadline, can_go)) {
      return DeadlineExceededError("tensor edge: deadline passed");
    }
    if (pipe_->sender_closed) return UnavailableError("tensor edge: closed on this side");
    if (pipe_->receiver_closed) return UnavailableError("tensor edge: the peer closed it or died");
    pipe_->bytes += payload.size();
    pipe_->messages.push_back(std::move(message));
    pipe_->changed.notify_all();
    return OkStatus();
  }

  void Close() override {
    const std::lock_guard lock(pipe_->mutex);
    pipe_->sender_closed = true;
    pipe_->changed.notify_all();
  }

 private:
  bool closed() const { return pipe_->sender_closed || pipe_->receiver_closed; }
  const std::shared_ptr<Pipe> pipe_;
};

class PipeReceiver final : public TensorReceiver {
 public:
  explicit PipeReceiver(std::shared_ptr<Pipe> pipe) : pipe_(std::move(pipe)) {}
  ~PipeReceiver() override { Close(); }

  StatusOr<TensorMessage> Receive(Instant deadline) override {
    std::unique_lock lock(pipe_->mutex);
    const auto can_go = [&] {
      return pipe_->receiver_closed || pipe_->sender_closed || !pipe_->messages.empty();
    };
    if (!pipe_->changed.wait_until(lock, deadline, can_go)) {
      return DeadlineExceededError("tensor edge: deadline passed");
    }
    if (pipe_->receiver_closed) return UnavailableError("tensor edge: closed on this side");
    if (pipe_->messages.empty()) return UnavailableError("tensor edge: the peer closed it or died");
    TensorMessage message = std::move(pipe_->messages.front());
    pipe_->messages.pop_front();
    pipe_->bytes -= message.payload.size();
    pipe_->changed.notify_all();
    return message;
  }

  void Close() override {
    const std::lock_guard lock(pipe_->mutex);
    pipe_->receiver_closed = true;
    pipe_->changed.notify_all();
  }

 private:
  const std::shared_ptr<Pipe> pipe_;
};

}  // namespace

std::pair<std::unique_ptr<TensorSender>, std::unique_ptr<TensorReceiver>> MakeInProcessTensorPair(
    const TensorLimits& limits) {
  auto pipe = std::make_shared<Pipe>(limits);
  return {std::make_unique<PipeSender>(pipe), std::make_unique<PipeReceiver>(pipe)};
}

}  // namespace paceline
