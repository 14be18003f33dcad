// Residual addition: y[i] = a[i] + b[i] over contiguous float32 [n]. y may be a or b. Exact IEEE rounding.
#pragma once

#include <cstddef>

namespace paceline::kernels {

void Add(const float* a, const float* b, float* y, size_t n);

}  // namespace paceline::kernels
