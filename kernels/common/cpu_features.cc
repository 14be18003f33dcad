#include "kernels/common/cpu_features.h"

#include <atomic>

#include "kernels/common/highway_targets.h"

namespace paceline::kernels {
namespace {

std::atomic<bool> vnni_masked{false};

}  // namespace

bool UseAvx512Vnni() {
#if defined(__x86_64__) && defined(__GNUC__)
  // __builtin_cpu_supports reads CPUID and XGETBV: it is false when the system does not save zmm state.
  static const bool present = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
                              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return present && !vnni_masked.load(std::memory_order_relaxed) && (hwy::SupportedTargets() & HWY_AVX3) != 0;
#else
  return false;
#endif
}

void MaskAvx512VnniForTest(bool masked) { vnni_masked.store(masked, std::memory_order_relaxed); }

}  // namespace paceline::kernels
