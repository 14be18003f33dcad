#include "kernels/common/highway_targets.h"
#include "kernels/matmul/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/float_tile_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/common/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::kernels {
namespace HWY_NAMESPACE {

// Rows x outputs that share loads: as many accumulators as the registers hold.
inline constexpr size_t kBlockRows = 4;
inline constexpr size_t kBlockOutputs = HWY_MAX_BYTES == 64 ? 4 : 2;

// Adds 16 products per (row, output) pair, lanes [part * kLanes, + kLanes) of them.
template <typename Widen, size_t R, size_t O>
HWY_INLINE void AddProducts(const float* const (&x)[R], const std::byte* const (&w)[O], size_t k,
                            VF (&acc)[R][O]) {
  VF xv[R];
  for (size_t r = 0; r < R; ++r) xv[r] = hn::LoadU(DF(), x[r] + k);
  for (size_t o = 0; o < O; ++o) {
    const VF wv = Widen::Load(w[o] + k * Widen::kBytes);
    for (size_t r = 0; r < R; ++r) acc[r][o] = AddMul(acc[r][o], xv[r], wv);
  }
}

// The dots of R rows with O outputs. Vectors narrower than 16 lanes make one pass per part, which keeps all
// accumulators of a pass in registers and loads every element once in all.
template <typename Widen, size_t R, size_t O>
HWY_INLINE void Dots(const FloatTileArgs& args, size_t row, size_t output, TileSums& sums) {
  const size_t body = args.cols - args.cols % kReduceLanes;
  const size_t tail = args.cols - body;
  const float* x[R];
  const std::byte* w[O];
  float x_tail[R][kReduceLanes];
  float w_tail[O][kReduceLanes];
  for (size_t r = 0; r < R; ++r) {
    x[r] = args.x + (row + r) * args.x_stride;
    CopyTail(x[r] + body, tail, x_tail[r]);
  }
  for (size_t o = 0; o < O; ++o) {
    w[o] = args.weights + (output + o) * args.row_bytes;
    WidenTail<Widen>(w[o] + body * Widen::kBytes, tail, w_tail[o]);
  }

  VF parts[R][O][kParts];
  for (size_t part = 0; part < kParts; ++part) {
    VF acc[R][O];
    for (size_t r = 0; r < R; ++r) {
      for (size_t o = 0; o < O; ++o) acc[r][o] = hn::Zero(DF());
    }
    for (size_t k = part * kLanes; k < body; k += kReduceLanes) AddProducts<Widen>(x, w, k, acc);
    for (size_t r = 0; r < R; ++r) {
      for (size_t o = 0; o < O; ++o) {
        const VF xv = hn::LoadU(DF(), x_tail[r] + part * kLanes);
        parts[r][o][part] = AddMul(acc[r][o], xv, hn::LoadU(DF(), w_tail[o] + part * kLanes));
      }
    }
  }
  for (size_t r = 0; r < R; ++r) {
    for (size_t o = 0; o < O; ++o) sums[row + r][output + o] = ReduceTree(parts[r][o]);
  }
}

template <typename Widen, size_t O>
HWY_INLINE void AllRows(const FloatTileArgs& args, size_t output, TileSums& sums) {
  size_t row = 0;
  for (; row + kBlockRows <= args.num_rows; row += kBlockRows)
    Dots<Widen, kBlockRows, O>(args, row, output, sums);
  for (; row < args.num_rows; ++row) Dots<Widen, 1, O>(args, row, output, sums);
}

template <typename Widen>
HWY_INLINE void FloatTile(const FloatTileArgs& args, TileSums& sums) {
  size_t output = 0;
  for (; output + kBlockOutputs <= args.num_outputs; output += kBlockOutputs) {
    AllRows<Widen, kBlockOutputs>(args, output, sums);
  }
  for (; output < args.num_outputs; ++output) AllRows<Widen, 1>(args, output, sums);
}

void FloatTileF32(const FloatTileArgs& args, TileSums& sums) { FloatTile<WidenF32>(args, sums); }
void FloatTileF16(const FloatTileArgs& args, TileSums& sums) { FloatTile<WidenF16>(args, sums); }
void FloatTileBF16(const FloatTileArgs& args, TileSums& sums) { FloatTile<WidenBF16>(args, sums); }

}  // namespace HWY_NAMESPACE
}  // namespace paceline::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::kernels {

HWY_EXPORT(FloatTileF32);
HWY_EXPORT(FloatTileF16);
HWY_EXPORT(FloatTileBF16);

FloatTileFn ChooseFloatTile(FloatFormat format) {
  switch (format) {
    case FloatFormat::kF16:
      return HWY_DYNAMIC_DISPATCH(FloatTileF16);
    case FloatFormat::kBF16:
      return HWY_DYNAMIC_DISPATCH(FloatTileBF16);
    case FloatFormat::kF32:
      break;
  }
  return HWY_DYNAMIC_DISPATCH(FloatTileF32);
}

}  // namespace paceline::kernels
#endif
