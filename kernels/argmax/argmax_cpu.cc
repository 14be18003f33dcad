#include "kernels/argmax/argmax.h"
#include "kernels/common/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/argmax/argmax_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include <cmath>

#include "common/base/check.h"
#include "hwy/highway.h"
#include "kernels/common/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {

// Greatest value, NaN when there is one. Two passes (value, then its first place) beat carrying indices
// along: the second stops early and the logits are in the cache by then.
float MaxOrNan(const float* logits, size_t n) {
  const DF d;
  VF best = hn::Set(d, logits[0]);
  VF nan_seen = hn::Zero(d);  // NaN once a lane has met one: NaN - NaN stays NaN
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const VF v = hn::LoadU(d, logits + i);
    nan_seen = hn::IfThenElse(hn::Eq(v, v), nan_seen, v);
    best = hn::Max(best, v);
  }
  HWY_ALIGN float lanes[kLanes];
  HWY_ALIGN float nans[kLanes];
  hn::Store(best, d, lanes);
  hn::Store(nan_seen, d, nans);
  float result = lanes[0];
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (std::isnan(nans[lane])) return nans[lane];
    if (lanes[lane] > result) result = lanes[lane];
  }
  for (; i < n; ++i) {
    if (std::isnan(logits[i])) return logits[i];
    if (logits[i] > result) result = logits[i];
  }
  return result;
}

size_t FirstEqual(const float* logits, size_t n, float value) {
  const VF wanted = hn::Set(DF(), value);
  size_t i = 0;
  while (i + kLanes <= n && hn::AllFalse(DF(), hn::Eq(hn::LoadU(DF(), logits + i), wanted))) i += kLanes;
  while (i < n && logits[i] != value) ++i;
  return i;
}

int64_t ArgMaxAll(const float* logits, size_t n) {
  const float greatest = MaxOrNan(logits, n);
  if (std::isnan(greatest)) return kArgMaxNan;
  return static_cast<int64_t>(FirstEqual(logits, n, greatest));
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::kernels {

HWY_EXPORT(ArgMaxAll);

int64_t ArgMax(const float* logits, size_t n) {
  CHECK_GE(n, size_t{1}) << "argmax over no logits";
  return HWY_DYNAMIC_DISPATCH(ArgMaxAll)(logits, n);
}

}  // namespace paceline::kernels
#endif
