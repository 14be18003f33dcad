// Matrix product with weights as they lie in the file: y[r, o] = sum_k x[r, k] * w[o, k] (+ bias[o]).
//
// Weights are rows of blocks, [rows = out, cols = in], any alignment, never written. Three families:
//
//   Q4_0, Q4_1, Q8_0  integer dots. Each run of 32 activations of a row is rounded to int8 (scale = amax /
//   127,
//                     nearest even; a run with inf or NaN gives NaN). Per output, blocks are added in order:
//                     acc += dx * (dw * float(dot))                          (Q4_0, Q8_0)
//                     acc += dx * (dw * float(dot) + m * float(sum of qx))   (Q4_1)
//   F32, F16, BF16    float dots in 16 virtual lanes (numerics.h), weights widened exactly.
//   all other types   rows are dequantised to float32, then as F32.
//
// The order is the row's own: any number of rows, threads and instruction sets give the same bits. A weight
// row is decoded once for several rows of x, so that a verify window costs little more than one row.
//
// Roofline: few rows move rows * RowBytes(dtype, cols) bytes of weights; many rows are bound by
// multiply-adds. Aliasing: y overlaps nothing. Threading: one caller per scratch and pool. Failure: shapes
// are the caller's invariant (CHECK); what a file says is tested once at load by CheckMatmulWeights.
//
//   MatmulScratch scratch;
//   scratch.Reserve(512, 1536, pool.num_threads());
//   Matmul({.x = x, .x_stride = 576, .num_rows = 3, .w = {DType::kQ4_1, data, 1536, 576}, .y = y, .y_stride =
//   1536},
//          scratch, pool);
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "kernels/common/thread_pool.h"

namespace paceline::kernels {

struct WeightMatrix {
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;  // [rows, RowBytes(dtype, cols)]
  size_t rows = 0;                  // outputs
  size_t cols = 0;                  // inputs, whole blocks of the dtype
};

struct MatmulArgs {
  const float* x = nullptr;  // [num_rows, cols] f32, row r at x + r * x_stride
  size_t x_stride = 0;       // elements, >= w.cols
  size_t num_rows = 0;
  WeightMatrix w;
  const float* bias = nullptr;  // [w.rows] f32 or null
  float* y = nullptr;           // [num_rows, w.rows] f32, row r at y + r * y_stride
  size_t y_stride = 0;          // elements, >= w.rows
};

// Reusable buffers: activations in int8 and dequantised weight rows. Grows when a call needs more than was
// reserved; a worker reserves for its largest step before the first one.
class MatmulScratch {
 public:
  void Reserve(size_t num_rows, size_t cols, int num_threads);

 private:
  friend struct MatmulScratchAccess;
  std::vector<int8_t> q_;       // [num_rows, cols]
  std::vector<float> d_;        // [num_rows, cols / 32] scale of each run
  std::vector<int32_t> sum_;    // [num_rows, cols / 32] sum of the run's int8
  std::vector<float> weights_;  // [tasks, rows of a tile, cols] for dequantised types
};

// OK when Matmul can use the matrix; else says which types and shapes it can.
Status CheckMatmulWeights(const WeightMatrix& w);

void Matmul(const MatmulArgs& args, MatmulScratch& scratch, ThreadPool& pool);

}  // namespace paceline::kernels
