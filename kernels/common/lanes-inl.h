// The 16 virtual lanes of a floating-point sum (numerics.h), on vectors of any width up to 16 lanes.
//
// Per-target header of Highway: include below foreach_target.h, use inside HWY_NAMESPACE.
#if defined(PACELINE_KERNELS_COMMON_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_KERNELS_COMMON_LANES_INL_H_
#undef PACELINE_KERNELS_COMMON_LANES_INL_H_
#else
#define PACELINE_KERNELS_COMMON_LANES_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"
#include "kernels/common/numerics.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, kReduceLanes>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
inline constexpr size_t kLanes = HWY_MIN(HWY_LANES(float), kReduceLanes);
inline constexpr size_t kParts = kReduceLanes / kLanes;  // vectors that make 16 lanes

// acc + a * b, rounded twice: never a fused multiply-add.
HWY_INLINE VF AddMul(VF acc, VF a, VF b) { return hn::Add(acc, hn::Mul(a, b)); }

// The tree: halves are added until one lane is left (16 -> 8 -> 4 -> 2 -> 1).
HWY_INLINE float ReduceTree(const VF (&parts)[kParts]) {
  VF v[kParts];
  for (size_t i = 0; i < kParts; ++i) v[i] = parts[i];
  for (size_t count = kParts / 2; count > 0; count /= 2) {
    for (size_t i = 0; i < count; ++i) v[i] = hn::Add(v[i], v[i + count]);
  }
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v[0], DF(), lanes);
  for (size_t count = kLanes / 2; count > 0; count /= 2) {
    for (size_t i = 0; i < count; ++i) lanes[i] += lanes[i + count];
  }
  return lanes[0];
}

// The last n % 16 elements of a sum go through a zero-padded buffer, so that a tail adds +0 to the lanes it
// does not reach, on every width alike.
HWY_INLINE void CopyTail(const float* from, size_t count, float (&padded)[kReduceLanes]) {
  std::memset(padded, 0, sizeof(padded));
  std::memcpy(padded, from, count * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
