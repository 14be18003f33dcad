#include "kernels/common/highway_targets.h"
#include "kernels/swiglu/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu/swiglu_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/common/vector_exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE VF SwiGluVector(VF gate, VF up) {
  const VF denominator = hn::Add(hn::Set(DF(), 1.0f), VectorExp(hn::Neg(gate)));
  return hn::Mul(hn::Div(gate, denominator), up);
}

void SwiGluAll(const float* gate, const float* up, float* y, size_t n) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(SwiGluVector(hn::LoadU(DF(), gate + i), hn::LoadU(DF(), up + i)), DF(), y + i);
  }
  if (i == n) return;
  float padded_gate[kReduceLanes], padded_up[kReduceLanes], padded_y[kReduceLanes];
  CopyTail(gate + i, n - i, padded_gate);
  CopyTail(up + i, n - i, padded_up);
  hn::StoreU(SwiGluVector(hn::LoadU(DF(), padded_gate), hn::LoadU(DF(), padded_up)), DF(), padded_y);
  std::memcpy(y + i, padded_y, (n - i) * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::kernels {

HWY_EXPORT(SwiGluAll);

void SwiGlu(const float* gate, const float* up, float* y, size_t n) {
  HWY_DYNAMIC_DISPATCH(SwiGluAll)(gate, up, y, n);
}

}  // namespace paceline::kernels
#endif
