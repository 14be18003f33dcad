// Root-mean-square norm: y[r, i] = (x[r, i] * s_r) * weight[i], s_r = 1 / sqrt(mean_i(x[r, i]^2) + eps).
//
// float32 throughout; the sum of squares runs in 16 virtual lanes (numerics.h), square root and division are
// the correctly rounded IEEE ones. y may be x. Any thread; rows are independent. n == 0 writes nothing.
//
//   RmsNorm({.x = h, .x_stride = 576, .num_rows = 3, .n = 576, .weight = w, .eps = 1e-5f, .y = out, .y_stride
//   = 576});
//
// Roofline: reads and writes 4 * n bytes a row.
#pragma once

#include <cstddef>

namespace paceline::kernels {

struct RmsNormArgs {
  const float* x = nullptr;  // [num_rows, n] f32, row r at x + r * x_stride
  size_t x_stride = 0;
  size_t num_rows = 0;
  size_t n = 0;
  const float* weight = nullptr;  // [n] f32
  float eps = 0;
  float* y = nullptr;  // [num_rows, n] f32; may be x when y_stride == x_stride
  size_t y_stride = 0;
};

void RmsNorm(const RmsNormArgs& args);

}  // namespace paceline::kernels
