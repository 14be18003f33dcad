// What kernel tests share: running on every instruction set of the machine, buffers with guards, random
// numbers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/common/cpu_features.h"
#include "kernels/common/highway_targets.h"
#include "kernels/common/numerics.h"

namespace paceline::kernels {

// Half of float32's machine epsilon: the relative error of one rounding.
inline constexpr double kUnitRoundoff = 1.0 / (1 << 24);

// Calls `body` once per instruction set that this machine and build have, best first, VNNI apart.
inline void ForEachInstructionSet(const std::function<void()>& body) {
  for (bool masked : {false, true}) {
    MaskAvx512VnniForTest(masked);
    if (masked || UseAvx512Vnni()) {
      for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        SCOPED_TRACE(std::string(InstructionSetName()));
        body();
        hwy::SetSupportedTargetsForTest(0);
        if (!masked) break;  // only the best target has VNNI
      }
    }
  }
  MaskAvx512VnniForTest(false);
}

// `size` elements between two fences; an element may start at any byte offset from alignment. Reading outside
// is for the address sanitizer, writing outside is caught by CheckGuards.
template <typename T>
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t size, size_t byte_offset = 0)
      : size_(size), offset_(kFence + byte_offset), bytes_(offset_ + size * sizeof(T) + kFence, kPattern) {}

  T* data() { return reinterpret_cast<T*>(bytes_.data() + offset_); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data()[i]; }

  void CheckGuards() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (i >= offset_ && i < offset_ + size_ * sizeof(T)) continue;
      ASSERT_EQ(bytes_[i], kPattern) << "byte " << static_cast<int64_t>(i - offset_) << " of a buffer of "
                                     << size_ * sizeof(T) << " was written";
    }
  }

 private:
  static constexpr size_t kFence = 256;
  static constexpr uint8_t kPattern = 0xa5;

  size_t size_;
  size_t offset_;
  std::vector<uint8_t> bytes_;
};

inline std::vector<float> RandomFloats(size_t n, uint32_t seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

inline ::testing::AssertionResult SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size())
    return ::testing::AssertionFailure() << a.size() << " vs " << b.size() << " values";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "value " << i << ": " << a[i] << " vs " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace paceline::kernels
