// The slow truth of rope.h: angles, sine and cosine from the C library in double.
#pragma once

#include <span>

#include "kernels/rope/rope.h"

namespace paceline::kernels {

void ApplyRopeRef(const RopeArgs& args, std::span<const double> inv_freq, double attention_scaling,
                  RopeLayout layout);

}  // namespace paceline::kernels
