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
  std::memset(to + i, 0, (padded_dim - i) * sizeof(float));
}

void WidenVectorAll(DType dtype, const std::byte* from, size_t count, size_t padded_dim, float* to) {
  if (dtype == DType::kF16) {
    WidenAs<WidenF16>(from, count, padded_dim, to);
  } else {
    WidenAs<WidenF32>(from, count, padded_dim, to);
  }
}

// scores[h][i] = scale * (q_h . k_i) for H heads.
template <size_t H>
HWY_INLINE void Scores(const ChunkArgs& args, size_t head, float (*scores)[kAttentionChunk]) {
  for (size_t i = 0; i < args.num_entries; ++i) {
    const float* k = args.kv.k + i * args.padded_dim;
    VF acc[H][kParts];
    for (size_t h = 0; h < H; ++h) {
      for (size_t p = 0; p < kParts; ++p) acc[h][p] = hn::Zero(DF());
    }
    for (size_t d = 0; d < args.padded_dim; d += kReduceLanes) {
      for (size_t p = 0; p < kParts; ++p) {
        const VF kv = hn::LoadU(DF(), k + d + p * kLanes);
        for (size_t h = 0; h < H; ++h) {
          const float* q = args.q + (head + h) * args.padded_dim + d + p * kLanes;
          acc[h][p] = AddMul(acc[h][p], hn::LoadU(DF(), q), kv);
        }
      }
    }
    for (size_t h = 0; h < H; ++h) scores[h][i] = ReduceTree(acc[h]) * args.scale;
  }
}

// out[h] = sum over entries, in order, of weights[h][i] * v_i for H heads.
template <size_t H>
HWY_INLINE void WeightedValues(const ChunkArgs& args, const float (*weights)[kAttentionChunk],
                               float* const* out) {
  for (size_t d = 0; d < args.padded_dim; d += kLanes) {
    VF acc[H];
    for (size_t h = 0; h < H; ++h) acc[h] = hn::Zero(DF());
    for (size_t i = 0; i < args.num_entries; ++i) {
      const VF v = hn::LoadU(DF(), args.kv.v + i * args.padded_dim + d);
      for (size_t h = 0; h < H; ++h) acc[h] = AddMul(acc[h], hn::Set(DF(), weights[h][i]), v);
    }
    for (size_t h = 0; h < H; ++h) hn::StoreU(acc[h], DF(), out[h] + d);
  }
}

HWY_INLINE float ScalarExp(float x) { return hn::GetLane(VectorExp(hn::Set(DF(), x))); }

// Turns scores into exp(score - maximum), zeros past the last entry. Returns their sum.
HWY_INLINE float Exponentiate(float* scores, size_t count, float maximum) {
  for (size_t i = count; i < kAttentionChunk; ++i) scores[i] = -HUGE_VALF;
  VF sum[kParts];
  for (size_t p = 0; p < kParts; ++p) sum[p] = hn::Zero(DF());
  for (size_t i = 0; i < kAttentionChunk; i += kReduceLanes) {
    for (size_t p = 0; p < kParts; ++p) {
      float* at = scores + i + p * kLanes;
      const VF e = VectorExp(hn::Sub(hn::LoadU(DF(), at), hn::Set(DF(), maximum)));
      sum[p] = hn::Add(sum[p], e);
      hn::StoreU(e, DF(), at);
    }
  }
  return ReduceTree(sum);
}

// values = values * old_factor + chunk * new_factor.
HWY_INLINE void Rescale(float* values, float old_factor, const float* chunk, float new_factor, size_t n) {
  for (size_t d = 0; d < n; d += kLanes) {
    const VF kept = hn::Mul(hn::LoadU(DF(), values + d), hn::Set(DF(), old_factor));
    hn::StoreU(AddMul(kept, hn::LoadU(DF(), chunk + d), hn::Set(DF(), new_factor)), DF(), values + d);
  }
}

HWY_INLINE float Greatest(const float* scores, size_t count) {
  float greatest = scores[0];
  for (size_t i = 1; i < count; ++i) greatest = scores[i] > greatest ? scores[i] : greatest;
  return greatest;
}

template <size_t H>
HWY_INLINE void AccumulateHeads(const ChunkArgs& args, size_t head, float* chunk_values,
                                SoftmaxState& state) {
  HWY_ALIGN float scores[H][kAttentionChunk] = {};
  Scores<H>(args, head, scores);
  float maximum[H], sum[H];
  float* out[H];
  for (size_t h = 0; h < H; ++h) {
    maximum[h] = Greatest(scores[h], args.num_entries);
    sum[h] = Exponentiate(scores[h], args.num_entries, maximum[h]);
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

HWY_EXPORT(WidenVectorAll);
HWY_EXPORT(AccumulateChunkAll);

void WidenVector(DType dtype, const std::byte* from, size_t count, size_t padded_dim, float* to) {
  HWY_DYNAMIC_DISPATCH(WidenVectorAll)(dtype, from, count, padded_dim, to);
}

void AccumulateChunk(const ChunkArgs& args, float* chunk_values, SoftmaxState& state) {
  HWY_DYNAMIC_DISPATCH(AccumulateChunkAll)(args, chunk_values, state);
}

}  // namespace paceline::kernels
#endif
