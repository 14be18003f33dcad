// A whole model on one thread and on two: prefill, verify windows and decode, in rows a second.
//
//   decoder_bench                    needs the SmolLM2 file (deploy/fetch-model, or PACELINE_TEST_MODEL)
//
// "vs decode" is what a row of a window costs against a row decoded alone: speculation lives on it.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "tests/support/local_generator.h"
#include "tests/support/shared_data.h"

namespace paceline {
namespace {

constexpr Position kPrefix = 128;

std::vector<TokenId> Ids(uint32_t count) {
  std::vector<TokenId> ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = static_cast<TokenId>((i * 977 + 5) % 49000);
  return ids;
}

// Decoded rows a second by threads, the base of "vs decode".
std::map<int, double>& DecodeRate() {
  static std::map<int, double> rate;
  return rate;
}

// Steps of `rows` rows behind a prefix of 128; `all` asks for the logits of each row, as a verify window
// does.
void BM_Step(benchmark::State& state, bool all) {
  const int threads = static_cast<int>(state.range(0));
  const uint32_t rows = static_cast<uint32_t>(state.range(1));
  auto generator = testing::LocalGenerator::Open(
      testing::RealModelPath(), {.num_threads = threads, .rows_max = 512, .positions_max = 1024});
  if (!generator.ok()) {
    state.SkipWithError("no SmolLM2 file");
    return;
  }
  testing::LocalModel& model = (*generator)->model();
  const std::vector<TokenId> ids = Ids(kPrefix + rows);
  CHECK_OK(model.Run(std::span(ids).first(kPrefix), 0, {.last_only = true}).status());
  const Instant start = MonotonicNow();
  for (auto _ : state) {
    auto logits = model.Run(std::span(ids).subspan(kPrefix), kPrefix, {.chunk = 512, .last_only = !all});
    benchmark::DoNotOptimize(logits);
  }
  const double rate = state.iterations() * rows / ToSeconds(MonotonicNow() - start);
  if (rows == 1) DecodeRate()[threads] = rate;
  state.counters["rows/s"] = rate;
  if (DecodeRate()[threads] > 0) state.counters["vs decode"] = rate / DecodeRate()[threads];
}

// Registered in this order, so that decode comes first.
BENCHMARK_CAPTURE(BM_Step, verify, true)
    ->ArgsProduct({{1, 2}, {1, 2, 4, 8, 16}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Step, prefill, false)
    ->ArgsProduct({{1, 2}, {64, 512}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
