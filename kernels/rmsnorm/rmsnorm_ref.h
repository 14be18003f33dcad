// The slow truth of rmsnorm.h, in double.
#pragma once

#include "kernels/rmsnorm/rmsnorm.h"

namespace paceline::kernels {

void RmsNormRef(const RmsNormArgs& args);

}  // namespace paceline::kernels
