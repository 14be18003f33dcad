// Row-wise operations at the widths of a real model: achieved bytes per second of reads and writes.
#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/add/add.h"
#include "kernels/argmax/argmax.h"
#include "kernels/common/elementwise_cases.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rope/rope.h"
#include "kernels/swiglu/swiglu.h"

namespace paceline::kernels {
namespace {

struct Buffers {
  std::vector<float> a, b, y;
};

struct Operation {
  const char* name;
  double bytes_per_element;
  std::function<void(Buffers&, size_t)> run;
};

void RunRmsNorm(Buffers& buffers, size_t n) {
  RmsNorm({buffers.a.data(), n, 1, n, buffers.b.data(), 1e-5f, buffers.y.data(), n});
}

// Heads of 64 at position 100.
void RunRope(Buffers& buffers, size_t n) {
  static const RopeTable table = [] {
    RopeTable made(std::vector<double>(32, 0.01));
    made.Prepare(101);
    return made;
  }();
  static const std::vector<uint32_t> position = {100};
  ApplyRope({buffers.a.data(), n, n / 64, 64, position}, table, RopeLayout::kHalves);
}

const Operation kOperations[] = {
    {"rmsnorm", 12, RunRmsNorm},
    {"swiglu", 12, [](Buffers& x, size_t n) { SwiGlu(x.a.data(), x.b.data(), x.y.data(), n); }},
    {"add", 12, [](Buffers& x, size_t n) { Add(x.a.data(), x.b.data(), x.y.data(), n); }},
    {"rope", 8, RunRope},
    {"argmax", 4, [](Buffers& x, size_t n) { benchmark::DoNotOptimize(ArgMax(x.a.data(), n)); }},
};

void Register() {
  for (const Operation& operation : kOperations) {
    for (size_t n : kWidthsReal) {
      const std::string name = std::string(operation.name) + "/" + std::to_string(n);
      benchmark::RegisterBenchmark(name.c_str(), [&operation, n](benchmark::State& state) {
        Buffers buffers{std::vector<float>(n, 0.5f), std::vector<float>(n, 0.25f), std::vector<float>(n)};
        for (auto _ : state) {
          operation.run(buffers, n);
          benchmark::ClobberMemory();
        }
        state.counters["GB/s"] =
            benchmark::Counter(static_cast<double>(state.iterations()) * operation.bytes_per_element *
                                   static_cast<double>(n) * 1e-9,
                               benchmark::Counter::kIsRate);
      });
    }
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
