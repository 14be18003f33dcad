#include "kernels/attention/chunk.h"
#include "kernels/common/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/chunk_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include <cmath>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/common/vector_exp-inl.h"
#include "kernels/common/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {

template <typename Widen>
HWY_INLINE void WidenAs(const std::byte* from, size_t count, size_t padded_dim, float* to) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(Widen::Load(from + i * Widen::kBytes), DF(), to + i);
  if (i < count) {
    float padded[kReduceLanes];
    WidenTail<Widen>(from + i * Widen::kBytes, count - i, padded);
    std::memcpy(to + i, padded, (count - i) * sizeof(float));
    i = count;
  }
  if (i < padded_dim) std::memset(to + i, 0, (padded_dim - i) * sizeof(float));
}

void WidenVectorsAll(const WidenArgs& args, float* to) {
  for (size_t i = 0; i < args.count; ++i, to += args.padded_dim) {
    const std::byte* from = args.base + args.offsets[i];
    if (args.dtype == DType::kF16) {
      WidenAs<WidenF16>(from, args.head_dim, args.padded_dim, to);
    } else {
      WidenAs<WidenF32>(from, args.head_dim, args.padded_dim, to);
    }
  }
}

#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR

HWY_INLINE VF AddHalves(VF a, VF b) {  // per 128 bits: [a0 + a2, a1 + a3, b0 + b2, b1 + b3]
  const hn::Repartition<double, DF> d64;
  const auto a64 = hn::BitCast(d64, a);
  const auto b64 = hn::BitCast(d64, b);
  return hn::Add(hn::BitCast(DF(), hn::InterleaveLower(d64, a64, b64)),
                 hn::BitCast(DF(), hn::InterleaveUpper(d64, a64, b64)));
}

HWY_INLINE VF AddPairsOfLanes(VF a, VF b) {  // per 128 bits: [a0 + a1, a2 + a3, b0 + b1, b2 + b3]
#if HWY_TARGET == HWY_AVX3
  return VF{_mm512_add_ps(_mm512_shuffle_ps(a.raw, b.raw, 0x88), _mm512_shuffle_ps(a.raw, b.raw, 0xdd))};
#elif HWY_TARGET == HWY_AVX2
  return VF{_mm256_add_ps(_mm256_shuffle_ps(a.raw, b.raw, 0x88), _mm256_shuffle_ps(a.raw, b.raw, 0xdd))};
#else
  return VF{_mm_add_ps(_mm_shuffle_ps(a.raw, b.raw, 0x88), _mm_shuffle_ps(a.raw, b.raw, 0xdd))};
#endif
}

// The tree of ReduceTree for kLanes sums at once: lane i of the result is the total of sums[i].
HWY_INLINE VF ReduceTrees(VF (&sums)[kLanes]) {
#if HWY_TARGET == HWY_AVX3
  // 16 lanes to 8, then 8 to 4: blocks of four lanes end as entries i, i + 4, i + 8, i + 12.
  for (size_t i = 0; i < 4; ++i) {
    const VF low = hn::Add(hn::ConcatLowerLower(DF(), sums[i + 4], sums[i]),
                           hn::ConcatUpperUpper(DF(), sums[i + 4], sums[i]));
    const VF high = hn::Add(hn::ConcatLowerLower(DF(), sums[i + 12], sums[i + 8]),
                            hn::ConcatUpperUpper(DF(), sums[i + 12], sums[i + 8]));
    sums[i] = VF{_mm512_add_ps(_mm512_shuffle_f32x4(low.raw, high.raw, 0x88),
                               _mm512_shuffle_f32x4(low.raw, high.raw, 0xdd))};
  }
#elif HWY_TARGET == HWY_AVX2
  for (size_t i = 0; i < 4; ++i) {
    sums[i] = hn::Add(hn::ConcatLowerLower(DF(), sums[i + 4], sums[i]),
                      hn::ConcatUpperUpper(DF(), sums[i + 4], sums[i]));
  }
#endif
  return AddPairsOfLanes(AddHalves(sums[0], sums[1]), AddHalves(sums[2], sums[3]));
}

#else

HWY_INLINE VF ReduceTrees(VF (&sums)[kLanes]) {
  HWY_ALIGN float totals[kLanes];
  for (size_t i = 0; i < kLanes; ++i) {
    HWY_ALIGN float lanes[kLanes];
    hn::Store(sums[i], DF(), lanes);
    for (size_t count = kLanes / 2; count > 0; count /= 2) {
      for (size_t j = 0; j < count; ++j) lanes[j] += lanes[j + count];
    }
    totals[i] = lanes[0];
  }
  return hn::Load(DF(), totals);
}

#endif

// Products of lanes [part * kLanes, + kLanes) of q with kLanes entries from k on.
HWY_INLINE void PartialDots(const ChunkArgs& args, const float* q, const float* k, size_t part,
                            VF (&acc)[kLanes]) {
  for (size_t i = 0; i < kLanes; ++i) acc[i] = hn::Zero(DF());
  for (size_t d = part * kLanes; d < args.padded_dim; d += kReduceLanes) {
    const VF qv = hn::LoadU(DF(), q + d);
    for (size_t i = 0; i < kLanes; ++i) {
      acc[i] = AddMul(acc[i], qv, hn::LoadU(DF(), k + i * args.padded_dim + d));
    }
  }
}

// scores[i] = scale * (q . k_i), kLanes entries at a time so that their trees share instructions. Entries
// past the last are computed from whatever the buffer holds and never looked at.
HWY_INLINE void Scores(const ChunkArgs& args, size_t head, float* scores) {
  const float* q = args.q + head * args.padded_dim;
  for (size_t i = 0; i < args.num_entries; i += kLanes) {
    VF parts[kParts][kLanes];
    for (size_t p = 0; p < kParts; ++p) PartialDots(args, q, args.kv.k + i * args.padded_dim, p, parts[p]);
    for (size_t count = kParts / 2; count > 0; count /= 2) {
      for (size_t p = 0; p < count; ++p) {
        for (size_t j = 0; j < kLanes; ++j) parts[p][j] = hn::Add(parts[p][j], parts[p + count][j]);
      }
    }
    hn::StoreU(hn::Mul(ReduceTrees(parts[0]), hn::Set(DF(), args.scale)), DF(), scores + i);
  }
}

// out[h] = sum over entries, in order, of weights[h][i] * v_i for H heads, V vectors of head_dim from d on.
template <size_t H, size_t V>
HWY_INLINE void WeightedColumns(const ChunkArgs& args, const float (*weights)[kAttentionChunk], size_t d,
                                float* const* out) {
  VF acc[H][V];
  for (size_t h = 0; h < H; ++h) {
    for (size_t j = 0; j < V; ++j) acc[h][j] = hn::Zero(DF());
  }
  for (size_t i = 0; i < args.num_entries; ++i) {
    VF value[V];
    for (size_t j = 0; j < V; ++j)
      value[j] = hn::LoadU(DF(), args.kv.v + i * args.padded_dim + d + j * kLanes);
    for (size_t h = 0; h < H; ++h) {
      const VF weight = hn::Set(DF(), weights[h][i]);
      for (size_t j = 0; j < V; ++j) acc[h][j] = AddMul(acc[h][j], weight, value[j]);
    }
  }
  for (size_t h = 0; h < H; ++h) {
    for (size_t j = 0; j < V; ++j) hn::StoreU(acc[h][j], DF(), out[h] + d + j * kLanes);
  }
}

template <size_t H>
HWY_INLINE void WeightedValues(const ChunkArgs& args, const float (*weights)[kAttentionChunk],
                               float* const* out) {
  constexpr size_t kWide = HWY_MAX_BYTES == 64 ? 4 : 2;  // accumulators stay in registers
  size_t d = 0;
  for (; d + kWide * kLanes <= args.padded_dim; d += kWide * kLanes)
    WeightedColumns<H, kWide>(args, weights, d, out);
  for (; d < args.padded_dim; d += kLanes) WeightedColumns<H, 1>(args, weights, d, out);
}

HWY_INLINE float ScalarExp(float x) { return hn::GetLane(VectorExp(hn::Set(DF(), x))); }

// Turns scores into exp(score - maximum), zeros past the last entry. A NaN score makes the sum NaN, whatever
// the maximum then is.
HWY_INLINE void Exponentiate(float* scores, size_t count, float& maximum, float& sum) {
  for (size_t i = count; i < kAttentionChunk; ++i) scores[i] = -HUGE_VALF;
  VF greatest = hn::LoadU(DF(), scores);
  for (size_t i = kLanes; i < kAttentionChunk; i += kLanes)
    greatest = hn::Max(greatest, hn::LoadU(DF(), scores + i));
  greatest = hn::MaxOfLanes(DF(), greatest);
  maximum = hn::GetLane(greatest);

  VF parts[kParts];
  for (size_t p = 0; p < kParts; ++p) parts[p] = hn::Zero(DF());
  for (size_t i = 0; i < kAttentionChunk; i += kReduceLanes) {
    for (size_t p = 0; p < kParts; ++p) {
      float* at = scores + i + p * kLanes;
      const VF e = VectorExp(hn::Sub(hn::LoadU(DF(), at), greatest));
      parts[p] = hn::Add(parts[p], e);
      hn::StoreU(e, DF(), at);
    }
  }
  sum = ReduceTree(parts);
}

// values = values * old_factor + chunk * new_factor.
HWY_INLINE void Rescale(float* values, float old_factor, const float* chunk, float new_factor, size_t n) {
  for (size_t d = 0; d < n; d += kLanes) {
    const VF kept = hn::Mul(hn::LoadU(DF(), values + d), hn::Set(DF(), old_factor));
    hn::StoreU(AddMul(kept, hn::LoadU(DF(), chunk + d), hn::Set(DF(), new_factor)), DF(), values + d);
  }
}

template <size_t H>
HWY_INLINE void AccumulateHeads(const ChunkArgs& args, size_t head, float* chunk_values,
                                SoftmaxState& state) {
  HWY_ALIGN float scores[H][kAttentionChunk] = {};
  float maximum[H], sum[H];
  float* out[H];
  for (size_t h = 0; h < H; ++h) {
    Scores(args, head + h, scores[h]);
    Exponentiate(scores[h], args.num_entries, maximum[h], sum[h]);
    out[h] = state.empty ? state.values + (head + h) * args.padded_dim : chunk_values + h * args.padded_dim;
  }
  WeightedValues<H>(args, scores, out);
  for (size_t h = 0; h < H; ++h) {
    float& running_maximum = state.maximum[head + h];
    float& running_sum = state.sum[head + h];
    if (state.empty) {
      running_maximum = maximum[h];
      running_sum = sum[h];
      continue;
    }
    const float common = maximum[h] > running_maximum ? maximum[h] : running_maximum;
    const float old_factor = ScalarExp(running_maximum - common);
    const float new_factor = ScalarExp(maximum[h] - common);
    running_maximum = common;
    running_sum = running_sum * old_factor + sum[h] * new_factor;
    Rescale(state.values + (head + h) * args.padded_dim, old_factor, out[h], new_factor, args.padded_dim);
  }
}

void AccumulateChunkAll(const ChunkArgs& args, float* chunk_values, SoftmaxState& state) {
  size_t head = 0;
  for (; head + kAttentionHeadBlock <= args.num_heads; head += kAttentionHeadBlock) {
    AccumulateHeads<kAttentionHeadBlock>(args, head, chunk_values, state);
  }
  switch (args.num_heads - head) {
    case 3:
      AccumulateHeads<3>(args, head, chunk_values, state);
      break;
    case 2:
      AccumulateHeads<2>(args, head, chunk_values, state);
      break;
    case 1:
      AccumulateHeads<1>(args, head, chunk_values, state);
      break;
    default:
      break;
  }
  state.empty = false;
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::kernels {

HWY_EXPORT(WidenVectorsAll);
HWY_EXPORT(AccumulateChunkAll);

void WidenVectors(const WidenArgs& args, float* to) { HWY_DYNAMIC_DISPATCH(WidenVectorsAll)(args, to); }

void AccumulateChunk(const ChunkArgs& args, float* chunk_values, SoftmaxState& state) {
  HWY_DYNAMIC_DISPATCH(AccumulateChunkAll)(args, chunk_values, state);
}

}  // namespace paceline::kernels
#endif
