// ShmRing: the shared memory of one edge: two byte lanes, written by the sender, read by the receiver.
//
// Internal to common/tensor_transport. A sealed memfd, so that no peer can shrink it under us, reserved in
// full at creation, so that a full /dev/shm is an error and not a signal. Nothing has a name: a killed
// process leaves nothing behind.
//
//   page 0        counters of both lanes, waiting flags
//   header lane   records: {header_bytes, payload_bytes, header}, each published whole
//   payload lane  bytes of the payloads, one after the other
//
// Counters only grow; index = counter % capacity. The writer owns `written`, the reader `read`. Both sides
// check the other's counter before they use it: the peer is trusted with its tokens, not with our memory.
//
// Threading: one writer and one reader, in different processes or threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/tensor_transport/tensor_channel.h"

namespace paceline {

struct alignas(64) ShmLaneCounters {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
};

// Lives at the start of the shared memory, which is all zero at first.
struct ShmControl {
  ShmLaneCounters header;
  ShmLaneCounters payload;
  alignas(64) std::atomic<uint32_t> reader_waits;
  alignas(64) std::atomic<uint32_t> writer_waits;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(ShmControl) <= 4096);

// One lane, seen from one side.
class ShmLane {
 public:
  ShmLane(ShmLaneCounters& counters, std::byte* data, uint64_t capacity)
      : counters_(counters), data_(data), capacity_(capacity) {}

  uint64_t capacity() const { return capacity_; }
  // Bytes that can be written or read now; DataLoss when the peer's counter is impossible.
  StatusOr<uint64_t> Writable() const;
  StatusOr<uint64_t> Readable() const;

  // `offset` bytes behind the counter, not yet published; the range must be writable (readable).
  void CopyIn(uint64_t offset, std::span<const std::byte> bytes);
  void CopyOut(uint64_t offset, std::span<std::byte> bytes) const;
  void Publish(uint64_t bytes);  // writer
  void Consume(uint64_t bytes);  // reader

 private:
  ShmLaneCounters& counters_;
  std::byte* data_;
  uint64_t capacity_;
  uint64_t own_ = 0;  // our counter; memory holds a copy for the peer, which may scribble on it
};

class ShmRing {
 public:
  // Both sides: `limits` are the listener's. The first makes the memory, the second maps what it was given.
  static StatusOr<std::unique_ptr<ShmRing>> Create(const TensorLimits& limits);
  static StatusOr<std::unique_ptr<ShmRing>> Map(UniqueFd memory, const TensorLimits& limits);
  ~ShmRing();
  ShmRing(const ShmRing&) = delete;
  ShmRing& operator=(const ShmRing&) = delete;

  int fd() const { return memory_.get(); }
  ShmControl& control() { return *reinterpret_cast<ShmControl*>(base_); }
  ShmLane HeaderLane();
  ShmLane PayloadLane();

 private:
  ShmRing(UniqueFd memory, std::byte* base, const TensorLimits& limits);
  UniqueFd memory_;
  std::byte* base_;
  const TensorLimits limits_;
};

// In front of each header in the header lane.
struct ShmRecord {
  uint64_t header_bytes = 0;
  uint64_t payload_bytes = 0;
};

}  // namespace paceline
