// The slow truth of argmax.h.
#pragma once

#include "kernels/argmax/argmax.h"

namespace paceline::kernels {

int64_t ArgMaxRef(const float* logits, size_t n);

}  // namespace paceline::kernels
