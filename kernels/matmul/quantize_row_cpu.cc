#include "kernels/common/highway_targets.h"
#include "kernels/matmul/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/quantize_row_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "kernels/common/vector_exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {

inline constexpr int32_t kInfBits = 0x7f800000;
// Below this the reciprocal 127 / amax would overflow; such a run is zero to any sum it enters.
inline constexpr float kSmallestAmax = 1e-35f;

// Bits of the greatest magnitude. As integers, so that NaN counts as greatest whatever the order.
HWY_INLINE int32_t GreatestMagnitudeBits(const float* x) {
  const DI di;
  const VI magnitude_mask = hn::Set(di, 0x7fffffff);
  VI greatest = hn::Zero(di);
  for (size_t i = 0; i < kActivationRun; i += kLanes) {
    greatest = hn::Max(greatest, hn::And(hn::BitCast(di, hn::LoadU(DF(), x + i)), magnitude_mask));
  }
  return hn::GetLane(hn::MaxOfLanes(di, greatest));
}

HWY_INLINE int32_t RoundRun(const float* x, float inverse, int8_t* q) {
  const hn::Rebind<int8_t, DF> d8;
  VI sum = hn::Zero(DI());
  for (size_t i = 0; i < kActivationRun; i += kLanes) {
    const VF scaled = hn::Mul(hn::LoadU(DF(), x + i), hn::Set(DF(), inverse));
    const VI rounded = hn::ConvertTo(DI(), RoundToEven(scaled));
    sum = hn::Add(sum, rounded);
    hn::StoreU(hn::DemoteTo(d8, rounded), d8, q + i);
  }
  return hn::GetLane(hn::SumOfLanes(DI(), sum));
}

void QuantizeRowAll(const float* x, size_t cols, size_t row, const QuantizeTarget& out) {
  for (size_t run = 0; run < cols / kActivationRun; ++run, x += kActivationRun) {
    const size_t place = run * out.row_capacity + row;
    int8_t* q = out.q + place * kActivationRun;
    const int32_t bits = GreatestMagnitudeBits(x);
    float amax;
    std::memcpy(&amax, &bits, sizeof(amax));
    if (bits >= kInfBits || amax < kSmallestAmax) {
      // One bad activation makes the whole product NaN: it must be seen, not averaged away.
      out.scale[place] = bits >= kInfBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
      out.sum[place] = 0;
      std::memset(q, 0, kActivationRun);
      continue;
    }
    out.scale[place] = amax / 127.0f;
    out.sum[place] = RoundRun(x, 127.0f / amax, q);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::kernels {

HWY_EXPORT(QuantizeRowAll);

void QuantizeRow(const float* x, size_t cols, size_t row, const QuantizeTarget& out) {
  HWY_DYNAMIC_DISPATCH(QuantizeRowAll)(x, cols, row, out);
}

}  // namespace paceline::kernels
#endif
