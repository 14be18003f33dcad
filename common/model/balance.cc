#include "common/model/balance.h"

#include <algorithm>
#include <limits>

namespace paceline {
namespace {

// costs[l]: bytes that layer l streams; the head's are added to the last layer, which shares its stage.
std::vector<uint64_t> LayerCosts(const ModelConfig& config, std::span<const TensorEntry> entries) {
  std::vector<uint64_t> costs(config.num_layers);
  for (uint32_t l = 0; l < config.num_layers; ++l) {
    costs[l] = StageWeightBytes({l, l + 1, false, l + 1 == config.num_layers}, config, entries);
  }
  return costs;
}

// Counts per stage that minimise the largest sum: best[s][l] = the least largest sum of s stages over l
// layers.
std::vector<uint32_t> BestCounts(const std::vector<uint64_t>& costs, uint32_t num_stages) {
  const size_t num_layers = costs.size();
  constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  std::vector<std::vector<uint64_t>> best(num_stages + 1, std::vector<uint64_t>(num_layers + 1, kNever));
  std::vector<std::vector<size_t>> cut(num_stages + 1, std::vector<size_t>(num_layers + 1, 0));
  best[0][0] = 0;
  for (uint32_t s = 1; s <= num_stages; ++s) {
    for (size_t end = s; end <= num_layers; ++end) {
      uint64_t sum = 0;
      for (size_t begin = end; begin-- > s - 1;) {
        sum += costs[begin];
        if (best[s - 1][begin] == kNever) continue;
        const uint64_t largest = std::max(best[s - 1][begin], sum);
        if (largest < best[s][end]) {
          best[s][end] = largest;
          cut[s][end] = begin;
        }
      }
    }
  }
  std::vector<uint32_t> counts(num_stages);
  size_t end = num_layers;
  for (uint32_t s = num_stages; s > 0; --s) {
    counts[s - 1] = static_cast<uint32_t>(end - cut[s][end]);
    end = cut[s][end];
  }
  return counts;
}

}  // namespace

StatusOr<std::vector<StageLayers>> BalanceLayers(const ModelConfig& config,
                                                 std::span<const TensorEntry> entries, uint32_t num_stages) {
  if (num_stages == 0 || num_stages > config.num_layers)
    return PartitionLayers("even", config.num_layers, num_stages);
  std::string spec;
  for (const uint32_t count : BestCounts(LayerCosts(config, entries), num_stages)) {
    spec += fmt::format("{}{}", spec.empty() ? "" : ",", count);
  }
  return PartitionLayers(spec, config.num_layers, num_stages);
}

}  // namespace paceline
