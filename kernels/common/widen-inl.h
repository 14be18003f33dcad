// Loads of F32, F16 and BF16 as float32 vectors, exact for every value (Highway's own F16 promotion is not
// the same for infinities on its narrow targets).
#if defined(PACELINE_KERNELS_COMMON_WIDEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_KERNELS_COMMON_WIDEN_INL_H_
#undef PACELINE_KERNELS_COMMON_WIDEN_INL_H_
#else
#define PACELINE_KERNELS_COMMON_WIDEN_INL_H_
#endif

#include <cstring>

#include "common/tensor/dtype.h"
#include "hwy/highway.h"
#include "kernels/common/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {

// Half-precision bits in the low 16 of each lane (the rest 0) to float. Without F16C the exponent moves by a
// multiplication with 2^112, which also makes subnormals normal.
HWY_INLINE VF HalfBitsToFloat(VI half) {
#if HWY_TARGET == HWY_AVX3
  return VF{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(half.raw))};
#elif HWY_TARGET == HWY_AVX2
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(half.raw, half.raw), 0x08);
  return VF{_mm256_cvtph_ps(_mm256_castsi256_si128(packed))};
#else
  const DF d;
  const DI di;
  const VI magnitude = hn::And(half, hn::Set(di, 0x7fff));
  const VF finite = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)),
                            hn::Set(d, 5192296858534827628530496329220096.0f));
  const auto special = hn::Gt(magnitude, hn::Set(di, 0x7bff));
  const VI exponent = hn::IfThenElseZero(special, hn::Set(di, 0x7f800000));
  const VI sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(di, 0x8000)));
  return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(di, finite), exponent), sign));
#endif
}

struct WidenF32 {
  static constexpr size_t kBytes = 4;
  static HWY_INLINE VF Load(const std::byte* p) {
#if HWY_TARGET == HWY_SCALAR
    float value;
    std::memcpy(&value, p, sizeof(value));
    return hn::Set(DF(), value);
#else
    return hn::LoadU(DF(), reinterpret_cast<const float*>(p));
#endif
  }
};

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE VI LoadU16(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return hn::Set(DI(), bits);
}
#else
HWY_INLINE VI LoadU16(const std::byte* p) {
  const hn::Rebind<uint16_t, DF> d16;
  return hn::BitCast(
      DI(), hn::PromoteTo(hn::RebindToUnsigned<DF>(), hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p))));
}
#endif

struct WidenF16 {
  static constexpr size_t kBytes = 2;
  static HWY_INLINE VF Load(const std::byte* p) {
#if HWY_TARGET == HWY_AVX3
    return VF{_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
#elif HWY_TARGET == HWY_AVX2
    return VF{_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
#else
    return HalfBitsToFloat(LoadU16(p));
#endif
  }
};

struct WidenBF16 {
  static constexpr size_t kBytes = 2;
  static HWY_INLINE VF Load(const std::byte* p) { return hn::BitCast(DF(), hn::ShiftLeft<16>(LoadU16(p))); }
};

// Widens `count` < 16 elements into a zero-padded buffer; never reads beyond them.
template <typename Widen>
HWY_INLINE void WidenTail(const std::byte* from, size_t count, float (&padded)[kReduceLanes]) {
  std::byte bytes[kReduceLanes * Widen::kBytes] = {};
  std::memcpy(bytes, from, count * Widen::kBytes);
  for (size_t p = 0; p < kParts; ++p) {
    hn::StoreU(Widen::Load(bytes + p * kLanes * Widen::kBytes), DF(), padded + p * kLanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
