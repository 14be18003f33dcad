// Linear: y = x W^T + b, with activations exact to 15 bits where the kernel would round them to 8.
//
// The integer kernels (Q4_0, Q4_1, Q8_0 weights) round each run of 32 activations to int8. That is too coarse
// inside the blocks of a small model: against its dequantised weights, SmolLM2-135M's logits fall to a cosine
// of 0.971 at the worst of 106 positions (q, k and v alone 0.993, gate and up 0.997, down 0.997, o 0.9996,
// head 0.9998). So a row is run as two int8 planes, itself and what int8 left of it, as two rows of one
// product that decodes each weight once; with the head left at int8 the cosine is above 0.9997. It costs a
// tenth of decoding speed and half of prefill's. Rejected: splitting only some of the matrices (see above),
// and a scale per 16 (0.992). A kernel that takes int16 activations would give the same for less and make
// this file one call.
//
// A row's result is a function of the row alone, as the kernel's. Threading: the executor's thread.
//
//   buffers of x and y have room for 2 * rows
//   SplitInputFor({&gate, &up}, x, rows);    // once per x, however many matrices read it
//   RunLinear(gate, x, rows, y, scratch, pool);
#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "kernels/common/thread_pool.h"
#include "kernels/matmul/matmul.h"

namespace paceline {

struct Linear {
  kernels::WeightMatrix weight;  // [out, in]
  std::vector<float> bias;       // [out], empty = none

  // Whether the kernel rounds activations for this matrix.
  bool rounds_activations() const;
};

// Prepares x [2 * rows, in] f32, of which the first half is filled, for all linears that read it: where one
// of them rounds activations, writes what int8 leaves of each row to the second half. A run that is not
// finite leaves NaN.
void SplitInputFor(std::initializer_list<const Linear*> readers, float* x, size_t rows);

// y rows [0, rows) = x W^T + b. Where the matrix rounds activations, x must have been split, and rows [rows,
// 2 * rows) of y are overwritten.
void RunLinear(const Linear& linear, const float* x, size_t rows, float* y, kernels::MatmulScratch& scratch,
               kernels::ThreadPool& pool);

}  // namespace paceline
