#include "kernels/matmul/matmul_ref.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "kernels/dequantize/dequantize.h"

namespace paceline::kernels {
namespace {

constexpr size_t kRun = 32;

void RoundToInt8Runs(std::vector<double>& x) {
  for (size_t begin = 0; begin < x.size(); begin += kRun) {
    double amax = 0;
    for (size_t i = begin; i < begin + kRun; ++i) amax = std::max(amax, std::abs(x[i]));
    if (amax == 0) continue;
    // As the kernel rounds: in float, since a tie that falls the other way is a whole step.
    const float inverse = 127.0f / static_cast<float>(amax);
    for (size_t i = begin; i < begin + kRun; ++i) {
      x[i] = std::nearbyint(static_cast<float>(x[i]) * inverse) * amax / 127.0;
    }
  }
}

// Q4_1 adds d * q and m apart, so its terms can be larger than their sum: blocks of constant sign are the
// worst.
double TermMagnitude(DType dtype, const float* weights, size_t k) {
  if (dtype != DType::kQ4_1) return std::abs(weights[k]);
  const float* block = weights + k / kRun * kRun;
  const auto [low, high] = std::minmax_element(block, block + kRun);
  return 2.0 * std::max(std::abs(*low), std::abs(*high)) + std::abs(*high - *low);
}

}  // namespace

MatmulReference MatmulRef(const MatmulArgs& args, ReferenceActivations activations) {
  const WeightMatrix& w = args.w;
  const size_t row_bytes = RowBytes(w.dtype, w.cols).value();
  MatmulReference result;
  std::vector<float> weights(w.cols);
  for (size_t r = 0; r < args.num_rows; ++r) {
    std::vector<double> x(args.x + r * args.x_stride, args.x + r * args.x_stride + w.cols);
    if (activations == ReferenceActivations::kInt8) RoundToInt8Runs(x);
    for (size_t o = 0; o < w.rows; ++o) {
      CHECK(DequantizeRow(w.dtype, w.data + o * row_bytes, weights.data(), w.cols).ok());
      double y = args.bias == nullptr ? 0.0 : args.bias[o];
      double magnitude = std::abs(y);
      for (size_t k = 0; k < w.cols; ++k) {
        y += x[k] * weights[k];
        magnitude += std::abs(x[k]) * TermMagnitude(w.dtype, weights.data(), k);
      }
      result.y.push_back(y);
      result.magnitude.push_back(magnitude);
    }
  }
  return result;
}

}  // namespace paceline::kernels
