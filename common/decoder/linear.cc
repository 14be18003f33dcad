#include "common/decoder/linear.h"

#include <algorithm>
#include <cmath>

#include "kernels/add/add.h"

namespace paceline {
namespace {

constexpr size_t kRun = 32;                  // activations that share a scale in the integer kernels
constexpr float kSmallestAmax = 1e-35f;      // below, the kernel takes the run for zero
constexpr float kRoundToInteger = 12582912;  // 1.5 * 2^23: adding it leaves an integer, ties to even

// rest = x - scale * round(x / scale), with the kernel's scale. The kernel rounds x itself once more; should
// its quotient fall on the other side of a tie, the two planes miss the sum by one step of the coarse one, so
// the operations here are the kernel's, one by one.
void SplitRun(const float* x, float* rest) {
  float amax = 0;
  for (size_t i = 0; i < kRun; ++i) amax = std::max(amax, std::abs(x[i]));
  if (amax < kSmallestAmax) {
    std::fill_n(rest, kRun, 0.0f);
    return;
  }
  const float inverse = 127.0f / amax;
  const float scale = amax / 127.0f;
  for (size_t i = 0; i < kRun; ++i) {
    const float q = (x[i] * inverse + kRoundToInteger) - kRoundToInteger;
    rest[i] = x[i] - q * scale;
  }
}

}  // namespace

bool Linear::rounds_activations() const {
  return weight.dtype == DType::kQ4_0 || weight.dtype == DType::kQ4_1 || weight.dtype == DType::kQ8_0;
}

void SplitInputFor(std::initializer_list<const Linear*> readers, float* x, size_t rows) {
  for (const Linear* reader : readers) {
    if (!reader->rounds_activations()) continue;
    const size_t count = rows * reader->weight.cols;  // whole runs: CheckMatmulWeights asks for whole blocks
    for (size_t i = 0; i < count; i += kRun) SplitRun(x + i, x + count + i);
    return;
  }
}

void RunLinear(const Linear& linear, const float* x, size_t rows, float* y, kernels::MatmulScratch& scratch,
               kernels::ThreadPool& pool) {
  const bool split = linear.rounds_activations();
  const size_t outputs = linear.weight.rows;
  kernels::Matmul({.x = x,
                   .x_stride = linear.weight.cols,
                   .num_rows = split ? 2 * rows : rows,
                   .w = linear.weight,
                   .bias = split || linear.bias.empty() ? nullptr : linear.bias.data(),
                   .y = y,
                   .y_stride = outputs},
                  scratch, pool);
  if (!split) return;
  kernels::Add(y, y + rows * outputs, y, rows * outputs);
  if (linear.bias.empty()) return;
  for (size_t row = 0; row < rows; ++row) {
    kernels::Add(y + row * outputs, linear.bias.data(), y + row * outputs, outputs);
  }
}

}  // namespace paceline
