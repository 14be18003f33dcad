#include "tests/bench/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace paceline::bench {
namespace {

constexpr int kPasses = 7;
constexpr size_t kPieces = 64;

// Eight independent sums, which the compiler turns into vector loads that keep several lines in flight.
uint64_t SumWords(const uint64_t* words, size_t count) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  uint64_t sum = 0;
  for (uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace

double MeasureReadBandwidth(size_t bytes, kernels::ThreadPool& pool) {
  std::vector<uint64_t> buffer(bytes / sizeof(uint64_t), 1);
  std::atomic<uint64_t> sink{0};
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.ParallelFor(kPieces, [&](size_t piece) {
      const size_t begin = buffer.size() * piece / kPieces;
      const size_t end = buffer.size() * (piece + 1) / kPieces;
      sink.fetch_add(SumWords(buffer.data() + begin, end - begin), std::memory_order_relaxed);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(bytes) / seconds.count());
  }
  return sink.load() == 0 ? 0 : best;
}

}  // namespace paceline::bench
