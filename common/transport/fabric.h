// Fabric: what the sockets of one process share, i.e. ZeroMQ's context and its I/O thread, and the counters
// of what was turned away.
//
// One per process, made before the sockets and destroyed after them.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Fabric> fabric, Fabric::Create());
//
// Threading: Create and the destructor on one thread; counters from any. Failure: an older libzmq than 4.3.4
// is refused (the first with fixes and options that robustness rests on).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "common/base/status.h"

namespace paceline {

// Label of fabric_rejected_messages_total.
enum class RejectReason : uint8_t {
  kTooLong,      // over the cap of the lane
  kMalformed,    // identifier, structure or meaning of the bytes
  kVersion,      // another protocol major
  kUnknownKind,  // a newer minor's message; ignored
  kWrongKind,    // a kind that does not travel in this direction or lane
  kIdentity,     // a sender that is no worker, or that speaks for another
  kHandshake,    // a connection that is no ZeroMQ peer
  kBanned,       // a peer that was dropped for an earlier message
};
inline constexpr size_t kNumRejectReasons = static_cast<size_t>(RejectReason::kBanned) + 1;
std::string_view Name(RejectReason reason);
// From the code of a Decode error.
RejectReason ReasonOf(const Status& decode_error);

class RejectCounters {
 public:
  void Add(RejectReason reason) {
    counts_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t Count(RejectReason reason) const {
    return counts_[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
  }
  uint64_t Total() const {
    uint64_t total = 0;
    for (const auto& count : counts_) total += count.load(std::memory_order_relaxed);
    return total;
  }

 private:
  std::array<std::atomic<uint64_t>, kNumRejectReasons> counts_{};
};

class Fabric {
 public:
  static StatusOr<std::unique_ptr<Fabric>> Create();
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  RejectCounters& rejected() { return rejected_; }  // fabric_rejected_messages_total{reason}
  // For common/transport only: ZeroMQ's context, and how many sockets live in it.
  void* context() { return context_; }
  void CountSocket(int change) { num_sockets_.fetch_add(change, std::memory_order_relaxed); }

 private:
  explicit Fabric(void* context) : context_(context) {}
  void* context_;
  RejectCounters rejected_;
  std::atomic<int> num_sockets_{0};
};

}  // namespace paceline
