// The tiles of integer_tile_cpu.cc for AVX-512 with VNNI: vpdpbusd adds four unsigned x signed byte products
// to a 32-bit lane, one instruction instead of three, and never saturates. Same layout, same float
// operations, same bits.
//
// Highway 1.0.3 has no target with this extension, hence plain intrinsics under an attribute of their own;
// callers ask UseAvx512Vnni() first.
#include "kernels/matmul/tile.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#pragma GCC push_options
#pragma GCC target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")

namespace paceline::kernels {
namespace {

#define PACELINE_INLINE inline __attribute__((always_inline))

constexpr size_t kWords = kActivationRun / 4;

struct LaneRows {
  const std::byte* base;
  alignas(64) int32_t offset[kTileOutputs];
};

PACELINE_INLINE __m128i Load16(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

// Rows i, i + 4, i + 8, i + 12 in the four quarters.
PACELINE_INLINE __m512i LoadQuarters(const std::byte* base, const int32_t* offset) {
  const __m256i low =
      _mm256_inserti128_si256(_mm256_castsi128_si256(Load16(base + offset[0])), Load16(base + offset[4]), 1);
  const __m256i high =
      _mm256_inserti128_si256(_mm256_castsi128_si256(Load16(base + offset[8])), Load16(base + offset[12]), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// words[c] lane i = bytes 4c .. 4c + 3 at `at` of row i.
PACELINE_INLINE void LoadTransposed(const LaneRows& rows, size_t at, __m512i* words) {
  const std::byte* base = rows.base + at;
  const __m512i v0 = LoadQuarters(base, rows.offset);
  const __m512i v1 = LoadQuarters(base, rows.offset + 1);
  const __m512i v2 = LoadQuarters(base, rows.offset + 2);
  const __m512i v3 = LoadQuarters(base, rows.offset + 3);
  const __m512i low01 = _mm512_unpacklo_epi32(v0, v1);
  const __m512i low23 = _mm512_unpacklo_epi32(v2, v3);
  const __m512i high01 = _mm512_unpackhi_epi32(v0, v1);
  const __m512i high23 = _mm512_unpackhi_epi32(v2, v3);
  words[0] = _mm512_unpacklo_epi64(low01, low23);
  words[1] = _mm512_unpackhi_epi64(low01, low23);
  words[2] = _mm512_unpacklo_epi64(high01, high23);
  words[3] = _mm512_unpackhi_epi64(high01, high23);
}

PACELINE_INLINE __m512i LoadWord(const LaneRows& rows, size_t at) {
  return _mm512_i32gather_epi32(_mm512_load_si512(rows.offset), rows.base + at, 1);
}

PACELINE_INLINE __m512 LowHalfToFloat(__m512i v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }

PACELINE_INLINE void SplitNibbles(__m512i (&words)[kWords]) {
  const __m512i low_mask = _mm512_set1_epi8(15);
  for (size_t c = 0; c < kWords / 2; ++c) {
    words[c + kWords / 2] = _mm512_and_si512(_mm512_srli_epi32(words[c], 4), low_mask);
    words[c] = _mm512_and_si512(words[c], low_mask);
  }
}

// Four activations to all lanes. Read one word at a time: a wider read would be split through scalar
// registers, and the broadcast would no longer be part of the instruction that uses it.
PACELINE_INLINE __m512i BroadcastWord(const int8_t* q, size_t word) {
  int32_t bits;
  std::memcpy(&bits, q + 4 * word, sizeof(bits));
  return _mm512_set1_epi32(bits);
}

// Sum over the block of unsigned weight x signed activation, on top of `start`.
PACELINE_INLINE __m512i ByteDot(const __m512i (&words)[kWords], const int8_t* q, __m512i start) {
  __m512i even = start;
  __m512i odd = _mm512_setzero_si512();
  for (size_t c = 0; c < kWords; c += 2) {
    even = _mm512_dpbusd_epi32(even, words[c], BroadcastWord(q, c));
    odd = _mm512_dpbusd_epi32(odd, words[c + 1], BroadcastWord(q, c + 1));
  }
  return _mm512_add_epi32(even, odd);
}

struct BlockQ4_0 {
  static constexpr size_t kBytes = 18;
  __m512i words[kWords];
  __m512 d;
  PACELINE_INLINE void Load(const LaneRows& rows, size_t at) {
    d = LowHalfToFloat(LoadWord(rows, at));
    LoadTransposed(rows, at + 2, words);
    SplitNibbles(words);
  }
  PACELINE_INLINE __m512 Dot(const int8_t* q, int32_t sum) const {
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(ByteDot(words, q, _mm512_set1_epi32(-8 * sum))));
  }
};

struct BlockQ4_1 {
  static constexpr size_t kBytes = 20;
  __m512i words[kWords];
  __m512 d, m;
  PACELINE_INLINE void Load(const LaneRows& rows, size_t at) {
    const __m512i header = LoadWord(rows, at);
    d = LowHalfToFloat(header);
    m = LowHalfToFloat(_mm512_srli_epi32(header, 16));
    LoadTransposed(rows, at + 4, words);
    SplitNibbles(words);
  }
  PACELINE_INLINE __m512 Dot(const int8_t* q, int32_t sum) const {
    const __m512 scaled = _mm512_mul_ps(d, _mm512_cvtepi32_ps(ByteDot(words, q, _mm512_setzero_si512())));
    return _mm512_add_ps(scaled, _mm512_mul_ps(m, _mm512_cvtepi32_ps(_mm512_set1_epi32(sum))));
  }
};

// Signed weights become unsigned by + 128; 128 times the activations' sum comes off again.
struct BlockQ8_0 {
  static constexpr size_t kBytes = 34;
  __m512i words[kWords];
  __m512 d;
  PACELINE_INLINE void Load(const LaneRows& rows, size_t at) {
    d = LowHalfToFloat(LoadWord(rows, at));
    LoadTransposed(rows, at + 2, words);
    LoadTransposed(rows, at + 18, words + kWords / 2);
    for (__m512i& word : words) word = _mm512_xor_si512(word, _mm512_set1_epi8(-128));
  }
  PACELINE_INLINE __m512 Dot(const int8_t* q, int32_t sum) const {
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(ByteDot(words, q, _mm512_set1_epi32(-128 * sum))));
  }
};

// The tile is walked across its rows, an order that hardware prefetchers do not recognise; the next tile
// follows it in memory, so each run fetches its share of that. Beyond the last tile it does nothing: a
// prefetch cannot fault.
PACELINE_INLINE void PrefetchNextTile(const IntegerTileArgs& args, size_t at, size_t bytes) {
  const std::byte* next = args.weights + kTileOutputs * args.row_bytes + at;
  for (size_t line = 0; line < bytes; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(next + line), _MM_HINT_T0);
  }
}

template <typename Block>
void VnniTile(const IntegerTileArgs& args, TileSums& sums) {
  const size_t num_rows =
      args.num_rows;  // a local, since the stores below could change args for all g++ knows
  LaneRows rows;
  rows.base = args.weights;
  for (size_t lane = 0; lane < kTileOutputs; ++lane) {
    rows.offset[lane] = static_cast<int32_t>(std::min(lane, args.num_outputs - 1) * args.row_bytes);
  }
  for (size_t r = 0; r < num_rows; ++r) _mm512_storeu_ps(sums[r], _mm512_setzero_ps());
  for (size_t run = 0; run < args.num_runs; ++run) {
    PrefetchNextTile(args, run * Block::kBytes * kTileOutputs, Block::kBytes * kTileOutputs);
    Block block;
    block.Load(rows, run * Block::kBytes);
    const size_t place = run * args.x.row_capacity;
    const int8_t* q = args.x.q + place * kActivationRun;
    const int32_t* sum = args.x.sum + place;
    const float* scale = args.x.scale + place;
    for (size_t r = 0; r < num_rows; ++r) {
      const __m512 dot = block.Dot(q + r * kActivationRun, sum[r]);
      const __m512 term = _mm512_mul_ps(_mm512_set1_ps(scale[r]), dot);
      _mm512_storeu_ps(sums[r], _mm512_add_ps(_mm512_loadu_ps(sums[r]), term));
    }
  }
}

}  // namespace

IntegerTileFn ChooseVnniTile(IntegerFormat format) {
  switch (format) {
    case IntegerFormat::kQ4_0:
      return VnniTile<BlockQ4_0>;
    case IntegerFormat::kQ8_0:
      return VnniTile<BlockQ8_0>;
    case IntegerFormat::kQ4_1:
      break;
  }
  return VnniTile<BlockQ4_1>;
}

}  // namespace paceline::kernels

#pragma GCC pop_options

#else  // other machines: UseAvx512Vnni() is false there

namespace paceline::kernels {

IntegerTileFn ChooseVnniTile(IntegerFormat) { return nullptr; }

}  // namespace paceline::kernels

#endif
