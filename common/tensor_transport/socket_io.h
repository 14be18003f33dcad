// Small blocking-with-deadline helpers over non-blocking descriptors, shared by the makers of the tensor
// plane.
//
// Internal to common/tensor_transport. Functions of a channel wait on its own descriptors and on a CloseFlag,
// which another thread raises to end the wait.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/tensor_transport/tensor_channel.h"

namespace paceline {

// Raised once, by any thread; its descriptor stays readable from then on.
class CloseFlag {
 public:
  CloseFlag();
  void Raise();
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::atomic<bool> raised_{false};
};

// poll() until one of `fds` is ready or `deadline`; `revents` are filled. False: the deadline passed.
bool PollUntil(std::span<pollfd> fds, Instant deadline);

// Moves all of `bytes` (of `head`, then `body`, which leave in one packet where they fit), waiting for `fd`
// as needed. DeadlineExceeded: `done` says how far it came, go on later. Unavailable: the peer is gone, or
// `flag` was raised.
Status ReadFully(int fd, const CloseFlag& flag, std::span<std::byte> bytes, size_t& done, Instant deadline);
Status WriteFully(int fd, const CloseFlag& flag, std::span<const std::byte> head,
                  std::span<const std::byte> body, size_t& done, Instant deadline);

// "No such file or directory" for errno.
std::string ErrnoText();

// InvalidArgument unless a message of these sizes may travel.
Status CheckMessageSize(uint64_t header_bytes, uint64_t payload_bytes, const TensorLimits& limits);

// Where a tensor edge listens.
struct TensorAddress {
  enum class Kind { kUnix, kTcp } kind = Kind::kUnix;
  std::string path;  // kUnix
  std::string host;  // kTcp, without brackets
  uint16_t port_first = 0;
  uint16_t port_last = 0;  // equal to port_first outside of listening on a range
};
StatusOr<TensorAddress> ParseTensorAddress(const std::string& address);

}  // namespace paceline
