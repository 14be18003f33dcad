#include "kernels/argmax/argmax_ref.h"

#include <cmath>

namespace paceline::kernels {

int64_t ArgMaxRef(const float* logits, size_t n) {
  size_t best = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(logits[i])) return kArgMaxNan;
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int64_t>(best);
}

}  // namespace paceline::kernels
