#include "kernels/rmsnorm/rmsnorm_ref.h"

#include <cmath>

namespace paceline::kernels {

void RmsNormRef(const RmsNormArgs& args) {
  for (size_t r = 0; r < args.num_rows; ++r) {
    const float* x = args.x + r * args.x_stride;
    double sum = 0;
    for (size_t i = 0; i < args.n; ++i) sum += static_cast<double>(x[i]) * x[i];
    const double scale = 1.0 / std::sqrt(sum / static_cast<double>(args.n) + args.eps);
    for (size_t i = 0; i < args.n; ++i) {
      args.y[r * args.y_stride + i] = static_cast<float>(x[i] * scale * args.weight[i]);
    }
  }
}

}  // namespace paceline::kernels
