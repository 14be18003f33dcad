#include "common/tensor_transport/shm_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/checked_size.h"
#include "common/tensor_transport/socket_io.h"

namespace paceline {
namespace {

constexpr uint64_t kPage = 4096;
// More than any sensible edge; keeps sums of limits that a peer stated far from overflow.
constexpr uint64_t kRingBytesMax = 1ull << 32;

uint64_t WholePages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

uint64_t HeaderLaneBytes(const TensorLimits& limits) {
  return WholePages(limits.header_bytes_max + sizeof(ShmRecord));
}

uint64_t PayloadLaneBytes(const TensorLimits& limits) {
  return WholePages(std::max<uint64_t>(1, limits.ring_bytes));
}

StatusOr<uint64_t> RingBytes(const TensorLimits& limits) {
  if (limits.ring_bytes > kRingBytesMax) {
    return InvalidArgumentError("shared memory: ring of {} bytes, at most {}", limits.ring_bytes,
                                kRingBytesMax);
  }
  return kPage + HeaderLaneBytes(limits) + PayloadLaneBytes(limits);
}

StatusOr<std::byte*> MapBytes(int fd, uint64_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return UnavailableError("shared memory: mapping {} bytes: {}", bytes, ErrnoText());
  return static_cast<std::byte*>(base);
}

}  // namespace

StatusOr<uint64_t> ShmLane::Writable() const {
  const uint64_t used = own_ - counters_.read.load(std::memory_order_acquire);
  if (used > capacity_) return DataLossError("shared memory: the reader's counter is impossible");
  return capacity_ - used;
}

StatusOr<uint64_t> ShmLane::Readable() const {
  const uint64_t used = counters_.written.load(std::memory_order_acquire) - own_;
  if (used > capacity_) return DataLossError("shared memory: the writer's counter is impossible");
  return used;
}

void ShmLane::CopyIn(uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const uint64_t begin = (own_ + offset) % capacity_;
  const uint64_t first = std::min<uint64_t>(bytes.size(), capacity_ - begin);
  std::memcpy(data_ + begin, bytes.data(), first);
  std::memcpy(data_, bytes.data() + first, bytes.size() - first);
}

void ShmLane::CopyOut(uint64_t offset, std::span<std::byte> bytes) const {
  if (bytes.empty()) return;
  const uint64_t begin = (own_ + offset) % capacity_;
  const uint64_t first = std::min<uint64_t>(bytes.size(), capacity_ - begin);
  std::memcpy(bytes.data(), data_ + begin, first);
  std::memcpy(bytes.data() + first, data_, bytes.size() - first);
}

void ShmLane::Publish(uint64_t bytes) {
  own_ += bytes;
  counters_.written.store(own_, std::memory_order_release);
}

void ShmLane::Consume(uint64_t bytes) {
  own_ += bytes;
  counters_.read.store(own_, std::memory_order_release);
}

StatusOr<std::unique_ptr<ShmRing>> ShmRing::Create(const TensorLimits& limits) {
  ASSIGN_OR_RETURN(const uint64_t bytes, RingBytes(limits));
  UniqueFd memory(::memfd_create("paceline-edge", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) return UnavailableError("shared memory: memfd_create: {}", ErrnoText());
  if (::fallocate(memory.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
    return ResourceExhaustedError("shared memory: no room for {} bytes: {}", bytes, ErrnoText());
  }
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return UnavailableError("shared memory: sealing: {}", ErrnoText());
  }
  return Map(std::move(memory), limits);
}

StatusOr<std::unique_ptr<ShmRing>> ShmRing::Map(UniqueFd memory, const TensorLimits& limits) {
  ASSIGN_OR_RETURN(const uint64_t bytes, RingBytes(limits));
  struct stat info {};
  if (::fstat(memory.get(), &info) != 0) return UnavailableError("shared memory: fstat: {}", ErrnoText());
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (static_cast<uint64_t>(info.st_size) != bytes || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return DataLossError("shared memory: {} bytes (sealed: {}), want {} sealed against shrinking",
                         info.st_size, seals > 0, bytes);
  }
  ASSIGN_OR_RETURN(std::byte * base, MapBytes(memory.get(), bytes));
  return std::unique_ptr<ShmRing>(new ShmRing(std::move(memory), base, limits));
}

ShmRing::ShmRing(UniqueFd memory, std::byte* base, const TensorLimits& limits)
    : memory_(std::move(memory)), base_(base), limits_(limits) {}

ShmRing::~ShmRing() { ::munmap(base_, kPage + HeaderLaneBytes(limits_) + PayloadLaneBytes(limits_)); }

ShmLane ShmRing::HeaderLane() { return {control().header, base_ + kPage, HeaderLaneBytes(limits_)}; }

ShmLane ShmRing::PayloadLane() {
  return {control().payload, base_ + kPage + HeaderLaneBytes(limits_), PayloadLaneBytes(limits_)};
}

}  // namespace paceline
