#include "kernels/common/highway_targets.h"
// Before numerics.h, so that no header can pull Highway in with other targets.
#include "kernels/common/cpu_features.h"
#include "kernels/common/numerics.h"

namespace paceline::kernels {

std::string_view InstructionSetName() {
  if (UseAvx512Vnni()) return "AVX3+VNNI";
  return hwy::TargetName(ChosenTarget());
}

}  // namespace paceline::kernels
