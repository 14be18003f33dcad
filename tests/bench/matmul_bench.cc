// Matrix products: every SmolLM2 shape, and all products of one token over weights that lie apart as in a
// model.
//
//   build/release/bin/matmul_bench --benchmark_filter=token/Q4_1
//
// Counters: GB/s of weights; of_read = that over the read bandwidth of the same threads, measured in this run
// over a buffer of the same size (few rows should come near 1); rows/s; GMAC/s = 1e9 multiply-adds a second.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "kernels/common/cpu_features.h"
#include "kernels/common/highway_targets.h"
#include "kernels/common/numerics.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_cases.h"
#include "tests/bench/read_bandwidth.h"

namespace paceline::kernels {
namespace {

constexpr size_t kLayers = 30;

size_t BytesOf(DType dtype, size_t outputs, size_t inputs) {
  return outputs * RowBytes(dtype, inputs).value();
}

// Ordinary numbers near 0.01 in the plain types.
void FillPlain(DType dtype, std::vector<std::byte>& weights) {
  const size_t width = Info(dtype).block_bytes;
  for (size_t i = 0; i * width < weights.size(); ++i) {
    const float value = 0.01f * std::sin(static_cast<float>(i % 1009));
    const uint16_t narrow = dtype == DType::kF16 ? FloatToHalf(value) : FloatToBFloat16(value);
    const void* bits = &value;
    if (dtype != DType::kF32) bits = &narrow;
    std::memcpy(&weights[i * width], bits, width);
  }
}

// Random bytes with a small finite half in front of every block, so that no kernel meets subnormal numbers.
std::vector<std::byte> RandomWeights(DType dtype, size_t bytes) {
  std::vector<std::byte> weights(bytes);
  if (!IsQuantized(dtype)) {
    FillPlain(dtype, weights);
    return weights;
  }
  std::minstd_rand random(1);
  for (std::byte& byte : weights) byte = static_cast<std::byte>(random() >> 8 & 0x3f);
  const uint16_t scale = FloatToHalf(0.01f);
  for (size_t at = 0; at < bytes; at += Info(dtype).block_bytes) {
    std::memcpy(&weights[at], &scale, sizeof(scale));
    if (dtype == DType::kQ4_1) std::memcpy(&weights[at + 2], &scale, sizeof(scale));
  }
  return weights;
}

struct Product {
  MatmulShape shape;
  size_t offset;  // of its weights in the buffer
};

struct Setup {
  DType dtype;
  size_t rows;
  std::vector<Product> products;
  std::vector<std::byte> weights;
};

double ReadBandwidth(size_t bytes, ThreadPool& pool) {
  static std::map<std::pair<size_t, int>, double> measured;
  double& value = measured[{bytes, pool.num_threads()}];
  if (value == 0) value = bench::MeasureReadBandwidth(bytes, pool);
  return value;
}

void Run(benchmark::State& state, const Setup& setup) {
  ThreadPool pool(static_cast<int>(state.range(1)));
  size_t widest_in = 0, widest_out = 0;
  double multiply_adds = 0;
  for (const Product& product : setup.products) {
    widest_in = std::max(widest_in, product.shape.inputs);
    widest_out = std::max(widest_out, product.shape.outputs);
    multiply_adds += static_cast<double>(product.shape.inputs * product.shape.outputs);
  }
  std::vector<float> x(setup.rows * widest_in);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  std::vector<float> y(setup.rows * widest_out);
  MatmulScratch scratch;
  scratch.Reserve(setup.rows, widest_in, pool.num_threads());
  const double bandwidth = ReadBandwidth(setup.weights.size(), pool);

  for (auto _ : state) {
    for (const Product& product : setup.products) {
      Matmul({.x = x.data(),
              .x_stride = product.shape.inputs,
              .num_rows = setup.rows,
              .w = {setup.dtype, setup.weights.data() + product.offset, product.shape.outputs,
                    product.shape.inputs},
              .y = y.data(),
              .y_stride = product.shape.outputs},
             scratch, pool);
    }
    benchmark::ClobberMemory();
  }

  using benchmark::Counter;
  const double rounds = static_cast<double>(state.iterations());
  const double bytes = static_cast<double>(setup.weights.size());
  state.counters["GB/s"] = Counter(rounds * bytes * 1e-9, Counter::kIsRate);
  state.counters["of_read"] = Counter(rounds * bytes / bandwidth, Counter::kIsRate);
  state.counters["rows/s"] = Counter(rounds * static_cast<double>(setup.rows), Counter::kIsRate);
  state.counters["GMAC/s"] =
      Counter(rounds * static_cast<double>(setup.rows) * multiply_adds * 1e-9, Counter::kIsRate);
}

Setup OneShape(DType dtype, const MatmulShape& shape, size_t rows) {
  return {dtype, rows, {{shape, 0}}, RandomWeights(dtype, BytesOf(dtype, shape.outputs, shape.inputs))};
}

// The products of a token in model order: each layer's own weights, then the head.
Setup WholeToken(DType dtype, size_t rows) {
  Setup setup{dtype, rows, {}, {}};
  size_t offset = 0;
  const auto add = [&](const MatmulShape& shape) {
    setup.products.push_back({shape, offset});
    offset += BytesOf(dtype, shape.outputs, shape.inputs);
  };
  for (size_t layer = 0; layer < kLayers; ++layer) {
    for (const MatmulShape& shape : kSmolLm2Shapes) {
      for (size_t i = 0; i < shape.per_token / kLayers; ++i) add(shape);
    }
  }
  for (const MatmulShape& shape : kSmolLm2Shapes) {
    if (shape.per_token == 1) add(shape);
  }
  setup.weights = RandomWeights(dtype, offset);
  return setup;
}

constexpr int64_t kRows[] = {1, 4, 8, 64};

void Register() {
  for (DType dtype : kMatmulTypes) {
    for (const MatmulShape& shape : kSmolLm2Shapes) {
      if (shape.inputs % Info(dtype).block_elements != 0) continue;
      const std::string name = std::string(shape.name) + "/" + std::string(Name(dtype));
      benchmark::RegisterBenchmark(name.c_str(),
                                   [=](benchmark::State& state) {
                                     Run(state, OneShape(dtype, shape, static_cast<size_t>(state.range(0))));
                                   })
          ->ArgsProduct({{std::begin(kRows), std::end(kRows)}, {1, 2}})
          ->ArgNames({"rows", "threads"})
          ->UseRealTime();
    }
    if (576 % Info(dtype).block_elements != 0) continue;
    const std::string name = "token/" + std::string(Name(dtype));
    benchmark::RegisterBenchmark(
        name.c_str(),
        [=](benchmark::State& state) { Run(state, WholeToken(dtype, static_cast<size_t>(state.range(0)))); })
        ->ArgsProduct({{std::begin(kRows), std::end(kRows)}, {1, 2}})
        ->ArgNames({"rows", "threads"})
        ->UseRealTime();
  }
}

// PACELINE_BENCH_ISA=AVX2 (or SSE4, AVX3, SCALAR) measures what another machine would run.
void ForceInstructionSet() {
  const char* wanted = std::getenv("PACELINE_BENCH_ISA");
  if (wanted == nullptr) return;
  MaskAvx512VnniForTest(true);
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (std::string(hwy::TargetName(target)) == wanted) hwy::SetSupportedTargetsForTest(target);
  }
}

}  // namespace
}  // namespace paceline::kernels

int main(int argc, char** argv) {
  paceline::kernels::ForceInstructionSet();
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("instruction_set", std::string(paceline::kernels::InstructionSetName()));
  paceline::kernels::Register();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
