// The slow truth of swiglu.h, in double.
#pragma once

#include "kernels/swiglu/swiglu.h"

namespace paceline::kernels {

void SwiGluRef(const float* gate, const float* up, double* y, size_t n);

}  // namespace paceline::kernels
