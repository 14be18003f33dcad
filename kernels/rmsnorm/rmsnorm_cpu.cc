#include "kernels/common/highway_targets.h"
#include "kernels/rmsnorm/rmsnorm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rmsnorm/rmsnorm_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include <cmath>

#include "hwy/highway.h"
#include "kernels/common/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE void AddSquares(const float* x, VF (&acc)[kParts]) {
  for (size_t p = 0; p < kParts; ++p) {
    const VF v = hn::LoadU(DF(), x + p * kLanes);
    acc[p] = AddMul(acc[p], v, v);
  }
}

float SumOfSquares(const float* x, size_t n) {
  VF acc[kParts];
  for (size_t p = 0; p < kParts; ++p) acc[p] = hn::Zero(DF());
  size_t i = 0;
  for (; i + kReduceLanes <= n; i += kReduceLanes) AddSquares(x + i, acc);
  if (i < n) {
    float padded[kReduceLanes];
    CopyTail(x + i, n - i, padded);
    AddSquares(padded, acc);
  }
  return ReduceTree(acc);
}

void RmsNormRow(const float* x, const float* weight, float eps, size_t n, float* y) {
  const float mean = SumOfSquares(x, n) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + eps);
  const VF vector_scale = hn::Set(DF(), scale);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const VF scaled = hn::Mul(hn::LoadU(DF(), x + i), vector_scale);
    hn::StoreU(hn::Mul(scaled, hn::LoadU(DF(), weight + i)), DF(), y + i);
  }
  for (; i < n; ++i) y[i] = (x[i] * scale) * weight[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::kernels {

HWY_EXPORT(RmsNormRow);

void RmsNorm(const RmsNormArgs& args) {
  if (args.n == 0) return;
  for (size_t r = 0; r < args.num_rows; ++r) {
    HWY_DYNAMIC_DISPATCH(RmsNormRow)
    (args.x + r * args.x_stride, args.weight, args.eps, args.n, args.y + r * args.y_stride);
  }
}

}  // namespace paceline::kernels
#endif
