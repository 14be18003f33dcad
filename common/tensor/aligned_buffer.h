// AlignedBuffer: owns bytes that start at a multiple of 64, so that vector code may load them aligned.
//
// Not zeroed: whoever makes one fills it. Moves, never copies; an empty one owns nothing.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include "common/base/check.h"

namespace paceline {

class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    // aligned_alloc wants whole multiples of the alignment.
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    CHECK(data_ != nullptr) << "out of memory for a buffer of " << bytes << " bytes";
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::move(other.data_)), bytes_(std::exchange(other.bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return bytes_; }
  std::span<std::byte> span() { return {data_.get(), bytes_}; }
  std::span<const std::byte> span() const { return {data_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
};

}  // namespace paceline
