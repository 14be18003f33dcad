// Attention over a paged cache: decode (1 row), verification (8 rows of a sequence) and prefill (64 rows).
//
//   build/release/bin/attention_bench --benchmark_filter=smollm2
//
// Counters: GB/s of K and V that one pass over the path needs, of_read = that over the read bandwidth
// measured in this run; rows/s.
#include <benchmark/benchmark.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cases.h"
#include "tests/bench/read_bandwidth.h"

namespace paceline::kernels {
namespace {

constexpr size_t kBlockSize = 16;
constexpr size_t kBandwidthBytes = 64 << 20;

void Run(benchmark::State& state, const AttentionShape& shape) {
  const auto num_rows = static_cast<size_t>(state.range(0));
  const auto path = static_cast<size_t>(state.range(1));
  ThreadPool pool(static_cast<int>(state.range(2)));
  static const double bandwidth_one = [] {
    ThreadPool one(1);
    return bench::MeasureReadBandwidth(kBandwidthBytes, one);
  }();

  const size_t num_blocks = (path + num_rows) / kBlockSize + 1;
  const size_t row_bytes = shape.num_kv_heads * shape.head_dim * Info(shape.dtype).block_bytes;
  std::vector<std::byte> k(num_blocks * kBlockSize * row_bytes), v(k.size());
  const KvView kv = {shape.dtype, k.data(), v.data(), kBlockSize, shape.num_kv_heads, shape.head_dim};
  std::vector<uint32_t> blocks(num_blocks);
  std::iota(blocks.rbegin(), blocks.rend(), 0u);  // backwards: no two neighbouring blocks lie in order
  const size_t width = shape.num_heads * shape.head_dim;
  const std::vector<float> ones(shape.num_kv_heads * shape.head_dim, 0.5f);
  std::vector<AttentionRow> rows;
  for (size_t slot = 0; slot < path + num_rows; ++slot) {
    const KvWriteRow row{blocks.data(), static_cast<uint32_t>(slot)};
    WriteKv(ones.data(), ones.size(), ones.data(), ones.size(), {&row, 1}, kv);
  }
  for (size_t r = 0; r < num_rows; ++r) {
    rows.push_back({blocks.data(), static_cast<uint32_t>(path + r), {}});
  }
  const std::vector<float> q(num_rows * width, 0.25f);
  std::vector<float> out(q.size());
  AttentionScratch scratch;

  for (auto _ : state) {
    Attention({.q = q.data(),
               .q_stride = width,
               .num_heads = shape.num_heads,
               .rows = rows,
               .kv = kv,
               .scale = 0.125f,
               .out = out.data(),
               .out_stride = width},
              scratch, pool);
    benchmark::ClobberMemory();
  }

  using benchmark::Counter;
  const double rounds = static_cast<double>(state.iterations());
  const double bytes = 2.0 * static_cast<double>(path * row_bytes);
  state.counters["GB/s"] = Counter(rounds * bytes * 1e-9, Counter::kIsRate);
  state.counters["of_read"] = Counter(rounds * bytes / bandwidth_one, Counter::kIsRate);
  state.counters["rows/s"] = Counter(rounds * static_cast<double>(num_rows), Counter::kIsRate);
}

void Register() {
  for (const AttentionShape& shape : kAttentionShapes) {
    benchmark::RegisterBenchmark(shape.name, [=](benchmark::State& state) { Run(state, shape); })
        ->ArgsProduct({{1, 8, 64}, {64, 512, 4096}, {1, 2}})
        ->ArgNames({"rows", "path", "threads"})
        ->UseRealTime();
  }
}

}  // namespace
}  // namespace paceline::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  paceline::kernels::Register();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
