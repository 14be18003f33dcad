#include <algorithm>
#include <optional>

#include "common/base/check.h"
#include "kernels/dequantize/dequantize.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/tile.h"

namespace paceline::kernels {

// The tile code's way into the scratch.
struct MatmulScratchAccess {
  static QuantizeTarget Activations(MatmulScratch& scratch, size_t num_rows, size_t cols) {
    const size_t num_runs = cols / kActivationRun;
    Grow(scratch.q_, num_rows * cols);
    Grow(scratch.d_, num_rows * num_runs);
    Grow(scratch.sum_, num_rows * num_runs);
    return {scratch.q_.data(), scratch.d_.data(), scratch.sum_.data(), num_rows};
  }
  // Room for the float32 weights of one tile per task.
  static float* Weights(MatmulScratch& scratch, size_t num_tasks, size_t cols) {
    Grow(scratch.weights_, num_tasks * kTileOutputs * cols);
    return scratch.weights_.data();
  }

 private:
  template <typename T>
  static void Grow(std::vector<T>& buffer, size_t size) {
    if (buffer.size() < size) buffer.resize(size);
  }
};

namespace {

// A task should outlast its hand-over (a microsecond or two) by far.
constexpr size_t kMinTaskBytes = 32 * 1024;
// Rows whose quantisation is worth spreading over threads.
constexpr size_t kMinQuantizeRows = 8;

std::optional<IntegerFormat> AsInteger(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return IntegerFormat::kQ4_0;
    case DType::kQ4_1:
      return IntegerFormat::kQ4_1;
    case DType::kQ8_0:
      return IntegerFormat::kQ8_0;
    default:
      return std::nullopt;
  }
}

std::optional<FloatFormat> AsFloat(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return FloatFormat::kF32;
    case DType::kF16:
      return FloatFormat::kF16;
    case DType::kBF16:
      return FloatFormat::kBF16;
    default:
      return std::nullopt;
  }
}

struct Tile {
  size_t first_output;
  size_t num_outputs;
  const std::byte* weights;
};

Tile TileAt(const WeightMatrix& w, size_t row_bytes, size_t index) {
  const size_t first = index * kTileOutputs;
  return {first, std::min(kTileOutputs, w.rows - first), w.data + first * row_bytes};
}

void StoreTile(const MatmulArgs& args, const Tile& tile, size_t first_row, size_t num_rows,
               const TileSums& sums) {
  for (size_t r = 0; r < num_rows; ++r) {
    float* y = args.y + (first_row + r) * args.y_stride + tile.first_output;
    for (size_t o = 0; o < tile.num_outputs; ++o) {
      y[o] = args.bias == nullptr ? sums[r][o] : sums[r][o] + args.bias[tile.first_output + o];
    }
  }
}

TaskSplit SplitTiles(const WeightMatrix& w, size_t row_bytes, const ThreadPool& pool) {
  const size_t num_tiles = (w.rows + kTileOutputs - 1) / kTileOutputs;
  return TaskSplit(num_tiles, kMinTaskBytes / std::max<size_t>(1, kTileOutputs * row_bytes) + 1,
                   pool.num_threads());
}

// Calls compute(task, tile, first_row, num_rows, sums) for every tile and group of rows, and stores the sums.
// A task keeps one group of rows in its second-level cache while its tiles pass by.
template <typename Compute>
void ForEachTile(const MatmulArgs& args, size_t row_bytes, ThreadPool& pool, const TaskSplit& split,
                 const Compute& compute) {
  pool.ParallelFor(split.num_tasks(), [&](size_t task) {
    alignas(64) TileSums sums;
    for (size_t row = 0; row < args.num_rows; row += kTileRows) {
      const size_t num_rows = std::min(kTileRows, args.num_rows - row);
      for (size_t index = split.begin(task); index < split.end(task); ++index) {
        const Tile tile = TileAt(args.w, row_bytes, index);
        compute(task, tile, row, num_rows, sums);
        StoreTile(args, tile, row, num_rows, sums);
      }
    }
  });
}

void QuantizeRows(const MatmulArgs& args, const QuantizeTarget& target, ThreadPool& pool) {
  const TaskSplit split(args.num_rows, kMinQuantizeRows, pool.num_threads());
  pool.ParallelFor(split.num_tasks(), [&](size_t task) {
    for (size_t r = split.begin(task); r < split.end(task); ++r) {
      QuantizeRow(args.x + r * args.x_stride, args.w.cols, r, target);
    }
  });
}

void IntegerMatmul(const MatmulArgs& args, size_t row_bytes, IntegerFormat format, MatmulScratch& scratch,
                   ThreadPool& pool) {
  const QuantizeTarget x = MatmulScratchAccess::Activations(scratch, args.num_rows, args.w.cols);
  QuantizeRows(args, x, pool);
  const IntegerTileFn tile_fn = ChooseIntegerTile(format);
  const auto compute = [&](size_t, const Tile& tile, size_t row, size_t num_rows, TileSums& sums) {
    tile_fn({.weights = tile.weights,
             .row_bytes = row_bytes,
             .num_outputs = tile.num_outputs,
             .num_runs = args.w.cols / kActivationRun,
             .x = {x.q + row * kActivationRun, x.scale + row, x.sum + row, x.row_capacity},
             .num_rows = num_rows},
            sums);
  };
  ForEachTile(args, row_bytes, pool, SplitTiles(args.w, row_bytes, pool), compute);
}

FloatTileArgs FloatTileOf(const MatmulArgs& args, const Tile& tile, size_t row, size_t num_rows) {
  return {.weights = tile.weights,
          .num_outputs = tile.num_outputs,
          .cols = args.w.cols,
          .x = args.x + row * args.x_stride,
          .x_stride = args.x_stride,
          .num_rows = num_rows};
}

void FloatMatmul(const MatmulArgs& args, size_t row_bytes, FloatFormat format, ThreadPool& pool) {
  const FloatTileFn tile_fn = ChooseFloatTile(format);
  const auto compute = [&](size_t, const Tile& tile, size_t row, size_t num_rows, TileSums& sums) {
    FloatTileArgs tile_args = FloatTileOf(args, tile, row, num_rows);
    tile_args.row_bytes = row_bytes;
    tile_fn(tile_args, sums);
  };
  ForEachTile(args, row_bytes, pool, SplitTiles(args.w, row_bytes, pool), compute);
}

void DequantizedMatmul(const MatmulArgs& args, size_t row_bytes, MatmulScratch& scratch, ThreadPool& pool) {
  const FloatTileFn tile_fn = ChooseFloatTile(FloatFormat::kF32);
  const TaskSplit split = SplitTiles(args.w, row_bytes, pool);
  float* buffers = MatmulScratchAccess::Weights(scratch, split.num_tasks(), args.w.cols);
  const auto compute = [&](size_t task, const Tile& tile, size_t row, size_t num_rows, TileSums& sums) {
    float* wide = buffers + task * kTileOutputs * args.w.cols;
    for (size_t o = 0; o < tile.num_outputs; ++o) {
      const Status status =
          DequantizeRow(args.w.dtype, tile.weights + o * row_bytes, wide + o * args.w.cols, args.w.cols);
      CHECK(status.ok()) << Message(status);
    }
    FloatTileArgs tile_args = FloatTileOf(args, tile, row, num_rows);
    tile_args.weights = reinterpret_cast<const std::byte*>(wide);
    tile_args.row_bytes = args.w.cols * sizeof(float);
    tile_fn(tile_args, sums);
  };
  ForEachTile(args, row_bytes, pool, split, compute);
}

}  // namespace

void MatmulScratch::Reserve(size_t num_rows, size_t cols, int num_threads) {
  MatmulScratchAccess::Activations(*this, num_rows, cols);
  MatmulScratchAccess::Weights(*this, TaskSplit::MaxTasks(num_threads), cols);
}

Status CheckMatmulWeights(const WeightMatrix& w) {
  if (!CanDequantize(w.dtype)) {
    return InvalidArgumentError(
        "matmul: no kernel for weights of type {}; convert the model to a float or GGUF type", Name(w.dtype));
  }
  ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(w.dtype, w.cols));
  // Tiles address their rows with 32-bit offsets.
  if (row_bytes > static_cast<uint64_t>(INT32_MAX) / kTileOutputs) {
    return InvalidArgumentError(
        "matmul: a weight row of {} bytes is longer than the {} that kernels can address", row_bytes,
        INT32_MAX / kTileOutputs);
  }
  return OkStatus();
}

void Matmul(const MatmulArgs& args, MatmulScratch& scratch, ThreadPool& pool) {
  if (args.num_rows == 0 || args.w.rows == 0) return;
  const Status status = CheckMatmulWeights(args.w);
  CHECK(status.ok()) << Message(status);
  CHECK_GE(args.x_stride, args.w.cols);
  CHECK_GE(args.y_stride, args.w.rows);
  const size_t row_bytes = RowBytes(args.w.dtype, args.w.cols).value();
  if (const auto integer = AsInteger(args.w.dtype)) {
    IntegerMatmul(args, row_bytes, *integer, scratch, pool);
  } else if (const auto plain = AsFloat(args.w.dtype)) {
    FloatMatmul(args, row_bytes, *plain, pool);
  } else {
    DequantizedMatmul(args, row_bytes, scratch, pool);
  }
}

}  // namespace paceline::kernels
