// Rotary position embedding (arXiv 2104.09864): pairs of a head's elements turn by pos * inv_freq[i].
//
// With d = 2 * inv_freq.size() <= head_dim, for i < d / 2 and (a, b) = the pair i:
//   a' = a * cos - b * sin,   b' = b * cos + a * sin
// kHalves:      pair i is (i, i + d/2)      rotate-half, Hugging Face checkpoints
// kInterleaved: pair i is (2i, 2i + 1)      GGUF llama files (their q and k rows are permuted), DeepSeek
// Elements from d on pass through. Angles, sine and cosine are computed in double by
// common/base/portable_math and rounded to float32 once, so they do not depend on the C library.
//
// RopeTable: one per model; Prepare grows it (owner thread, outside the step), reading is const and
// free-threaded.
//
//   RopeTable table(inv_freq, /*attention_scaling=*/1.0);
//   table.Prepare(4096);
//   ApplyRope({.x = q, .row_stride = 576, .num_heads = 9, .head_dim = 64, .positions = pos}, table,
//   RopeLayout::kHalves);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::kernels {

enum class RopeLayout { kHalves, kInterleaved };

class RopeTable {
 public:
  // cos and sin are multiplied by `attention_scaling` (1 but for yarn and longrope).
  explicit RopeTable(std::span<const double> inv_freq, double attention_scaling = 1.0);

  // Makes positions [0, num_positions) ready; keeps what is there.
  void Prepare(size_t num_positions);

  size_t num_positions() const { return num_positions_; }
  size_t num_pairs() const { return inv_freq_.size(); }
  const float* Cos(size_t pos) const { return cos_.data() + pos * num_pairs(); }  // [num_pairs]
  const float* Sin(size_t pos) const { return sin_.data() + pos * num_pairs(); }

 private:
  std::vector<double> inv_freq_;
  double attention_scaling_;
  size_t num_positions_ = 0;
  std::vector<float> cos_;  // [num_positions, num_pairs]
  std::vector<float> sin_;
};

struct RopeArgs {
  float* x = nullptr;     // [positions.size(), num_heads, head_dim] f32, in place
  size_t row_stride = 0;  // elements between rows, >= num_heads * head_dim
  size_t num_heads = 0;
  size_t head_dim = 0;
  std::span<const uint32_t> positions;  // absolute, each < table.num_positions() (CHECK)
};

void ApplyRope(const RopeArgs& args, const RopeTable& table, RopeLayout layout);

}  // namespace paceline::kernels
