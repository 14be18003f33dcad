// exp in float32, the same operations on every instruction set: range reduction by ln 2 in two parts, a
// polynomial of degree 6 with separately rounded multiply and add, scaling by two powers of two.
//
// Relative error below 4e-7 (tested against double); results below the smallest normal float are 0, x > 88.73
// gives +inf, NaN stays NaN.
#if defined(PACELINE_KERNELS_COMMON_VECTOR_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_KERNELS_COMMON_VECTOR_EXP_INL_H_
#undef PACELINE_KERNELS_COMMON_VECTOR_EXP_INL_H_
#else
#define PACELINE_KERNELS_COMMON_VECTOR_EXP_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/common/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {

// Nearest integer, ties to even, for |v| < 2^22: adding 1.5 * 2^23 leaves no fraction bits. (Highway's own
// rounding is not the same on its scalar target.)
HWY_INLINE VF RoundToEven(VF v) {
  const VF magic = hn::Set(DF(), 12582912.0f);
  return hn::Sub(hn::Add(v, magic), magic);
}

HWY_INLINE VF PowerOfTwo(VI n) {
  return hn::BitCast(DF(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(DI(), 127))));
}

HWY_INLINE VF VectorExp(VF x) {
  const DF d;
  const auto is_number = hn::Eq(x, x);
  // Beyond these bounds the result is 0 or inf anyway; inside them n fits two powers of two.
  VF t = hn::IfThenElseZero(is_number, x);
  t = hn::Min(hn::Max(t, hn::Set(d, -104.0f)), hn::Set(d, 89.0f));

  const VF n = RoundToEven(hn::Mul(t, hn::Set(d, 1.44269504088896341f)));
  VF r = hn::Sub(t, hn::Mul(n, hn::Set(d, 0.693359375f)));  // exact product: 0.693359375 has 9 bits
  r = hn::Sub(r, hn::Mul(n, hn::Set(d, -2.12194440e-4f)));

  // Cephes expf: (((((c0 r + c1) r + c2) r + c3) r + c4) r + c5) r^2 + r + 1.
  VF p = hn::Set(d, 1.9875691500e-4f);
  p = AddMul(hn::Set(d, 1.3981999507e-3f), p, r);
  p = AddMul(hn::Set(d, 8.3334519073e-3f), p, r);
  p = AddMul(hn::Set(d, 4.1665795894e-2f), p, r);
  p = AddMul(hn::Set(d, 1.6666665459e-1f), p, r);
  p = AddMul(hn::Set(d, 5.0000001201e-1f), p, r);
  p = hn::Add(AddMul(r, p, hn::Mul(r, r)), hn::Set(d, 1.0f));

  const VI exponent = hn::ConvertTo(DI(), n);
  const VI half = hn::ShiftRight<1>(exponent);
  VF y = hn::Mul(hn::Mul(p, PowerOfTwo(half)), PowerOfTwo(hn::Sub(exponent, half)));
  y = hn::IfThenElseZero(hn::Ge(t, hn::Set(d, -87.3365402f)), y);
  return hn::IfThenElse(is_number, y, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
