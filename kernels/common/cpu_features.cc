#include "kernels/common/cpu_features.h"

#include "kernels/common/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/common/cpu_features.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include <atomic>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {

int64_t OwnTarget() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::kernels {
namespace {

std::atomic<bool> vnni_masked{false};

}  // namespace

HWY_EXPORT(OwnTarget);

// Not hwy::SupportedTargets(): that executes CPUID each time, which under a hypervisor costs microseconds.
int64_t ChosenTarget() { return HWY_DYNAMIC_DISPATCH(OwnTarget)(); }

bool UseAvx512Vnni() {
#if defined(__x86_64__) && defined(__GNUC__)
  // __builtin_cpu_supports reads CPUID and XGETBV: it is false when the system does not save zmm state.
  static const bool present = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
                              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return present && !vnni_masked.load(std::memory_order_relaxed) && ChosenTarget() == HWY_AVX3;
#else
  return false;
#endif
}

void MaskAvx512VnniForTest(bool masked) { vnni_masked.store(masked, std::memory_order_relaxed); }

}  // namespace paceline::kernels
#endif
