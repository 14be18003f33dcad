// Index of the greatest logit; of equal ones the lowest index (so -0.0 and +0.0 tie). A NaN anywhere is
// found.
//
//   int64_t token = ArgMax(logits, 49152);
//   if (token < 0) return InternalError("logits of seq {} hold NaN", seq);
//
// Infinities are ordinary values (masked logits are -inf; all -inf gives 0). n >= 1 (CHECK). Roofline: 4 * n
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::kernels {

inline constexpr int64_t kArgMaxNan = -1;

// logits: [n] f32. Returns the index, or kArgMaxNan when any logit is NaN.
int64_t ArgMax(const float* logits, size_t n);

}  // namespace paceline::kernels
