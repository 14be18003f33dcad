// Tiles of Q4_0, Q4_1 and Q8_0 weights as they lie in the file.
//
// Outputs sit in vector lanes: the same block of N weight rows is loaded and transposed as 4-byte words, so
// that lane i of word c holds elements 4c .. 4c + 3 of row i. Four activations broadcast to all lanes then
// make one byte dot per lane, no horizontal sums are needed, and float sums over blocks run in sequence on
// every width alike. The transposition costs 8 shuffles per N blocks and is shared by all rows of the call.
#include "kernels/common/cpu_features.h"
#include "kernels/common/highway_targets.h"
#include "kernels/matmul/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/integer_tile_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include <algorithm>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/common/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR

using V16 = hn::Vec<hn::Repartition<int16_t, DI>>;
inline constexpr size_t kWords = kActivationRun / 4;
using BlockWords = VI[kWords];  // element bytes 4c .. 4c + 3 of each lane's row

// maddubs: pairs of unsigned x signed bytes, saturating sums of two; the formats keep them below 2^15.
HWY_INLINE V16 PairDot(VI unsigned_bytes, VI signed_bytes) {
#if HWY_TARGET == HWY_AVX3
  return V16{_mm512_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#elif HWY_TARGET == HWY_AVX2
  return V16{_mm256_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#else
  return V16{_mm_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#endif
}

HWY_INLINE VI AddPairs(V16 v) {
#if HWY_TARGET == HWY_AVX3
  return VI{_mm512_madd_epi16(v.raw, _mm512_set1_epi16(1))};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_madd_epi16(v.raw, _mm256_set1_epi16(1))};
#else
  return VI{_mm_madd_epi16(v.raw, _mm_set1_epi16(1))};
#endif
}

// |weight| and the activation with the weight's sign: their unsigned x signed product is the signed one.
HWY_INLINE VI SignedDot(VI weight, VI x) {
#if HWY_TARGET == HWY_AVX3
  const __m512i flipped =
      _mm512_mask_sub_epi8(x.raw, _mm512_movepi8_mask(weight.raw), _mm512_setzero_si512(), x.raw);
  return AddPairs(PairDot(VI{_mm512_abs_epi8(weight.raw)}, VI{flipped}));
#elif HWY_TARGET == HWY_AVX2
  return AddPairs(PairDot(VI{_mm256_abs_epi8(weight.raw)}, VI{_mm256_sign_epi8(x.raw, weight.raw)}));
#else
  return AddPairs(PairDot(VI{_mm_abs_epi8(weight.raw)}, VI{_mm_sign_epi8(x.raw, weight.raw)}));
#endif
}

// Where the rows of the lanes begin; lanes past the last output repeat it.
struct LaneRows {
  const std::byte* base;
  HWY_ALIGN int32_t offset[kLanes];
};

HWY_INLINE VI LoadQuarter(const std::byte* base, const int32_t* offset) {
  const hn::FixedTag<int32_t, 4> d4;
  const auto load = [&](size_t lane) {
    return hn::LoadU(d4, reinterpret_cast<const int32_t*>(base + offset[lane]));
  };
#if HWY_TARGET == HWY_AVX3
  const hn::FixedTag<int32_t, 8> d8;
  return hn::Combine(DI(), hn::Combine(d8, load(12), load(8)), hn::Combine(d8, load(4), load(0)));
#elif HWY_TARGET == HWY_AVX2
  return hn::Combine(DI(), load(4), load(0));
#else
  return load(0);
#endif
}

// 16 bytes at `at` of each lane's row, transposed: words[c] lane i = bytes 4c .. 4c + 3 of row i.
HWY_INLINE void LoadTransposed(const LaneRows& rows, size_t at, VI* words) {
  const DI di;
  const hn::Repartition<int64_t, DI> d64;
  const std::byte* base = rows.base + at;
  const VI v0 = LoadQuarter(base, rows.offset);
  const VI v1 = LoadQuarter(base, rows.offset + 1);
  const VI v2 = LoadQuarter(base, rows.offset + 2);
  const VI v3 = LoadQuarter(base, rows.offset + 3);
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(di, v0, v1));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(di, v2, v3));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(di, v0, v1));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(di, v2, v3));
  words[0] = hn::BitCast(di, hn::InterleaveLower(d64, low01, low23));
  words[1] = hn::BitCast(di, hn::InterleaveUpper(d64, low01, low23));
  words[2] = hn::BitCast(di, hn::InterleaveLower(d64, high01, high23));
  words[3] = hn::BitCast(di, hn::InterleaveUpper(d64, high01, high23));
}

// The 4 bytes at `at` of each lane's row.
HWY_INLINE VI LoadWord(const LaneRows& rows, size_t at) {
  const auto* base = reinterpret_cast<const int32_t*>(rows.base + at);
#if HWY_TARGET == HWY_SSE4
  HWY_ALIGN int32_t words[kLanes];
  for (size_t i = 0; i < kLanes; ++i) {
    std::memcpy(&words[i], reinterpret_cast<const std::byte*>(base) + rows.offset[i], 4);
  }
  return hn::Load(DI(), words);
#else
  return hn::GatherOffset(DI(), base, hn::Load(DI(), rows.offset));
#endif
}

HWY_INLINE void SplitNibbles(BlockWords& words) {
  const VI low_mask = hn::Set(DI(), 0x0f0f0f0f);
  for (size_t c = 0; c < kWords / 2; ++c) {
    words[c + kWords / 2] = hn::And(hn::ShiftRight<4>(words[c]), low_mask);
    words[c] = hn::And(words[c], low_mask);
  }
}

HWY_INLINE VI BroadcastWord(const int8_t* q, size_t word) {
  int32_t bits;
  std::memcpy(&bits, q + 4 * word, sizeof(bits));
  return hn::Set(DI(), bits);
}

// Sums of nibble x int8 products over a block: 8 pair sums of at most 2 * 15 * 127 stay below 2^15.
HWY_INLINE VI NibbleDot(const BlockWords& words, const int8_t* q) {
  V16 even = PairDot(words[0], BroadcastWord(q, 0));
  V16 odd = PairDot(words[1], BroadcastWord(q, 1));
  for (size_t c = 2; c < kWords; c += 2) {
    even = hn::Add(even, PairDot(words[c], BroadcastWord(q, c)));
    odd = hn::Add(odd, PairDot(words[c + 1], BroadcastWord(q, c + 1)));
  }
  return AddPairs(hn::Add(even, odd));
}

HWY_INLINE VI Low16(VI v) { return hn::And(v, hn::Set(DI(), 0xffff)); }

struct BlockQ4_0 {
  static constexpr size_t kBytes = 18;
  BlockWords words;
  VF d;
  HWY_INLINE BlockQ4_0(const LaneRows& rows, size_t at) {
    d = HalfBitsToFloat(Low16(LoadWord(rows, at)));
    LoadTransposed(rows, at + 2, words);
    SplitNibbles(words);
  }
  HWY_INLINE VF Dot(const int8_t* q, int32_t sum) const {
    return hn::Mul(d, hn::ConvertTo(DF(), hn::Sub(NibbleDot(words, q), hn::Set(DI(), 8 * sum))));
  }
};

struct BlockQ4_1 {
  static constexpr size_t kBytes = 20;
  BlockWords words;
  VF d, m;
  HWY_INLINE BlockQ4_1(const LaneRows& rows, size_t at) {
    const VI header = LoadWord(rows, at);
    d = HalfBitsToFloat(Low16(header));
    m = HalfBitsToFloat(Low16(hn::ShiftRight<16>(header)));
    LoadTransposed(rows, at + 4, words);
    SplitNibbles(words);
  }
  HWY_INLINE VF Dot(const int8_t* q, int32_t sum) const {
    const VF scaled = hn::Mul(d, hn::ConvertTo(DF(), NibbleDot(words, q)));
    return AddMul(scaled, m, hn::ConvertTo(DF(), hn::Set(DI(), sum)));
  }
};

struct BlockQ8_0 {
  static constexpr size_t kBytes = 34;
  BlockWords words;
  VF d;
  HWY_INLINE BlockQ8_0(const LaneRows& rows, size_t at) {
    d = HalfBitsToFloat(Low16(LoadWord(rows, at)));
    LoadTransposed(rows, at + 2, words);
    LoadTransposed(rows, at + 18, words + kWords / 2);
  }
  HWY_INLINE VF Dot(const int8_t* q, int32_t) const {
    VI even = SignedDot(words[0], BroadcastWord(q, 0));
    VI odd = SignedDot(words[1], BroadcastWord(q, 1));
    for (size_t c = 2; c < kWords; c += 2) {
      even = hn::Add(even, SignedDot(words[c], BroadcastWord(q, c)));
      odd = hn::Add(odd, SignedDot(words[c + 1], BroadcastWord(q, c + 1)));
    }
    return hn::Mul(d, hn::ConvertTo(DF(), hn::Add(even, odd)));
  }
};

// Rows are walked side by side, an order that hardware prefetchers do not recognise; the next vector's rows
// follow these in memory, so each run fetches its share of them. Beyond the end it does nothing: a prefetch
// cannot fault.
HWY_INLINE void PrefetchNext(const std::byte* rows_end, size_t at, size_t bytes) {
  for (size_t line = 0; line < bytes; line += 64) hwy::Prefetch(rows_end + at + line);
}

// One vector of outputs: columns [first, first + kLanes) of the tile.
template <typename Block>
HWY_INLINE void LanesOfTile(const IntegerTileArgs& args, size_t first, TileSums& sums) {
  constexpr size_t kRunBytes = Block::kBytes * kLanes;
  const size_t num_rows =
      args.num_rows;  // a local: the stores below could change args for all the compiler knows
  LaneRows rows;
  rows.base = args.weights + first * args.row_bytes;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    rows.offset[lane] = static_cast<int32_t>(std::min(lane, args.num_outputs - first - 1) * args.row_bytes);
  }
  for (size_t r = 0; r < num_rows; ++r) hn::StoreU(hn::Zero(DF()), DF(), sums[r] + first);
  for (size_t run = 0; run < args.num_runs; ++run) {
    PrefetchNext(rows.base + kLanes * args.row_bytes, run * kRunBytes, kRunBytes);
    const Block block(rows, run * Block::kBytes);
    const size_t place = run * args.x.row_capacity;
    const int8_t* q = args.x.q + place * kActivationRun;
    const int32_t* sum = args.x.sum + place;
    const float* scale = args.x.scale + place;
    for (size_t r = 0; r < num_rows; ++r) {
      const VF dot = block.Dot(q + r * kActivationRun, sum[r]);
      const VF acc = hn::LoadU(DF(), sums[r] + first);
      hn::StoreU(AddMul(acc, hn::Set(DF(), scale[r]), dot), DF(), sums[r] + first);
    }
  }
}

template <typename Block>
HWY_INLINE void IntegerTile(const IntegerTileArgs& args, TileSums& sums) {
  for (size_t first = 0; first < args.num_outputs; first += kLanes) LanesOfTile<Block>(args, first, sums);
}

#else  // one lane at a time: the same sums, also for machines without a vector variant of their own

struct BlockScalar {
  float d;
  float m;
  int32_t weight[kActivationRun];
};

HWY_INLINE float LoadHalf(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return HalfToFloat(bits);
}

HWY_INLINE void LoadNibbles(const std::byte* p, int32_t bias, BlockScalar& block) {
  for (size_t i = 0; i < kActivationRun / 2; ++i) {
    block.weight[i] = std::to_integer<int32_t>(p[i] & std::byte{15}) - bias;
    block.weight[i + kActivationRun / 2] = std::to_integer<int32_t>(p[i] >> 4) - bias;
  }
}

struct BlockQ4_0 {
  static constexpr size_t kBytes = 18;
  static constexpr bool kHasMin = false;
  static void Load(const std::byte* p, BlockScalar& block) {
    block.d = LoadHalf(p);
    LoadNibbles(p + 2, 8, block);
  }
};
struct BlockQ4_1 {
  static constexpr size_t kBytes = 20;
  static constexpr bool kHasMin = true;
  static void Load(const std::byte* p, BlockScalar& block) {
    block.d = LoadHalf(p);
    block.m = LoadHalf(p + 2);
    LoadNibbles(p + 4, 0, block);
  }
};
struct BlockQ8_0 {
  static constexpr size_t kBytes = 34;
  static constexpr bool kHasMin = false;
  static void Load(const std::byte* p, BlockScalar& block) {
    block.d = LoadHalf(p);
    for (size_t i = 0; i < kActivationRun; ++i) block.weight[i] = static_cast<int8_t>(p[2 + i]);
  }
};

template <typename Block>
void IntegerTile(const IntegerTileArgs& args, TileSums& sums) {
  for (size_t r = 0; r < args.num_rows; ++r) std::fill(sums[r], sums[r] + args.num_outputs, 0.0f);
  BlockScalar block;
  for (size_t o = 0; o < args.num_outputs; ++o) {
    for (size_t run = 0; run < args.num_runs; ++run) {
      Block::Load(args.weights + o * args.row_bytes + run * Block::kBytes, block);
      for (size_t r = 0; r < args.num_rows; ++r) {
        const size_t place = run * args.x.row_capacity + r;
        int32_t dot = 0;
        for (size_t i = 0; i < kActivationRun; ++i)
          dot += block.weight[i] * args.x.q[place * kActivationRun + i];
        float scaled = block.d * static_cast<float>(dot);
        if (Block::kHasMin) scaled += block.m * static_cast<float>(args.x.sum[place]);
        sums[r][o] += args.x.scale[place] * scaled;
      }
    }
  }
}

#endif

void IntegerTileQ4_0(const IntegerTileArgs& args, TileSums& sums) { IntegerTile<BlockQ4_0>(args, sums); }
void IntegerTileQ4_1(const IntegerTileArgs& args, TileSums& sums) { IntegerTile<BlockQ4_1>(args, sums); }
void IntegerTileQ8_0(const IntegerTileArgs& args, TileSums& sums) { IntegerTile<BlockQ8_0>(args, sums); }

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::kernels {

HWY_EXPORT(IntegerTileQ4_0);
HWY_EXPORT(IntegerTileQ4_1);
HWY_EXPORT(IntegerTileQ8_0);

IntegerTileFn ChooseIntegerTile(IntegerFormat format) {
  if (UseAvx512Vnni()) return ChooseVnniTile(format);
  switch (format) {
    case IntegerFormat::kQ4_0:
      return HWY_DYNAMIC_DISPATCH(IntegerTileQ4_0);
    case IntegerFormat::kQ8_0:
      return HWY_DYNAMIC_DISPATCH(IntegerTileQ8_0);
    case IntegerFormat::kQ4_1:
      break;
  }
  return HWY_DYNAMIC_DISPATCH(IntegerTileQ4_1);
}

}  // namespace paceline::kernels
#endif
