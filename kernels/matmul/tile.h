// The inner pieces of matmul.h: 16 outputs x up to 64 rows, the unit that instruction sets implement.
//
// A tile function decodes each weight once and uses it for all rows of the call. It reads only the weight
// bytes of `num_outputs` rows and writes acc[r][o] for o < num_outputs; what it leaves in the other columns
// is unspecified.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::kernels {

inline constexpr size_t kTileOutputs = 16;
inline constexpr size_t kTileRows = 64;       // accumulators of a call stay in the first-level cache
inline constexpr size_t kActivationRun = 32;  // activations that share a scale, = elements of a weight block

using TileSums = float[kTileRows][kTileOutputs];

// Activations rounded to int8, run-major so that all rows of one run lie together.
struct QuantizedRows {
  const int8_t* q = nullptr;     // [num_runs, row_capacity, 32]
  const float* scale = nullptr;  // [num_runs, row_capacity]
  const int32_t* sum = nullptr;  // [num_runs, row_capacity] sum of the run's q
  size_t row_capacity = 0;
};

struct IntegerTileArgs {
  const std::byte* weights = nullptr;  // the tile's first row
  size_t row_bytes = 0;
  size_t num_outputs = 0;  // 1 .. kTileOutputs
  size_t num_runs = 0;
  QuantizedRows x;      // pointers are at the call's first row
  size_t num_rows = 0;  // 1 .. kTileRows
};
using IntegerTileFn = void (*)(const IntegerTileArgs&, TileSums&);

struct FloatTileArgs {
  const std::byte* weights = nullptr;
  size_t row_bytes = 0;
  size_t num_outputs = 0;
  size_t cols = 0;
  const float* x = nullptr;
  size_t x_stride = 0;
  size_t num_rows = 0;
};
using FloatTileFn = void (*)(const FloatTileArgs&, TileSums&);

// The best of this machine. kQ4_0, kQ4_1 or kQ8_0; kF32, kF16 or kBF16.
enum class IntegerFormat { kQ4_0, kQ4_1, kQ8_0 };
enum class FloatFormat { kF32, kF16, kBF16 };
IntegerTileFn ChooseIntegerTile(IntegerFormat format);
FloatTileFn ChooseFloatTile(FloatFormat format);
// AVX-512 VNNI variants; only to be called when UseAvx512Vnni().
IntegerTileFn ChooseVnniTile(IntegerFormat format);

// Rounds row `row` of x into the run-major buffers. cols is a multiple of 32.
struct QuantizeTarget {
  int8_t* q = nullptr;
  float* scale = nullptr;
  int32_t* sum = nullptr;
  size_t row_capacity = 0;
};
void QuantizeRow(const float* x, size_t cols, size_t row, const QuantizeTarget& out);

}  // namespace paceline::kernels
