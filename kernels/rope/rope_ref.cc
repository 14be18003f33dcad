#include "kernels/rope/rope_ref.h"

#include <cmath>

namespace paceline::kernels {

void ApplyRopeRef(const RopeArgs& args, std::span<const double> inv_freq, double attention_scaling,
                  RopeLayout layout) {
  const size_t pairs = inv_freq.size();
  for (size_t r = 0; r < args.positions.size(); ++r) {
    for (size_t h = 0; h < args.num_heads; ++h) {
      float* head = args.x + r * args.row_stride + h * args.head_dim;
      for (size_t i = 0; i < pairs; ++i) {
        float& first = layout == RopeLayout::kHalves ? head[i] : head[2 * i];
        float& second = layout == RopeLayout::kHalves ? head[i + pairs] : head[2 * i + 1];
        const double angle = args.positions[r] * inv_freq[i];
        const double cos = std::cos(angle) * attention_scaling;
        const double sin = std::sin(angle) * attention_scaling;
        const double a = first;
        const double b = second;
        first = static_cast<float>(a * cos - b * sin);
        second = static_cast<float>(b * cos + a * sin);
      }
    }
  }
}

}  // namespace paceline::kernels
