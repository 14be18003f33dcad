// Gate of the MLP: y[i] = silu(gate[i]) * up[i], silu(g) = g / (1 + exp(-g)).
//
// Elementwise over contiguous float32, so rows simply follow one another: n = num_rows * width. exp is the
// float32 polynomial of kernels/common/vector_exp-inl.h, the same operations on every instruction set;
// elements do not depend on their place. y may be gate or up. g = -inf gives NaN (0 * inf), as the formula
// does in IEEE.
//
// Roofline: 12 bytes an element.
#pragma once

#include <cstddef>

namespace paceline::kernels {

void SwiGlu(const float* gate, const float* up, float* y, size_t n);

}  // namespace paceline::kernels
