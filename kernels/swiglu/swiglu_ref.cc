#include "kernels/swiglu/swiglu_ref.h"

#include <cmath>

namespace paceline::kernels {

void SwiGluRef(const float* gate, const float* up, double* y, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const double g = gate[i];
    y[i] = g / (1.0 + std::exp(-g)) * up[i];
  }
}

}  // namespace paceline::kernels
