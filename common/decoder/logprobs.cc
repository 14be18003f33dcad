#include "common/decoder/logprobs.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/check.h"
#include "common/base/portable_math.h"
#include "common/decoder/softmax_sum.h"

namespace paceline {
namespace {

// The best `count` of the row, best first, by insertion: count is small (at most 20), most values fail the
// first comparison.
std::vector<std::pair<TokenId, float>> Best(std::span<const float> logits, size_t count) {
  std::vector<std::pair<TokenId, float>> best;
  count = std::min(count, logits.size());
  if (count == 0) return best;
  best.reserve(count + 1);
  for (size_t id = 0; id < logits.size(); ++id) {
    const float z = logits[id];
    if (best.size() == count && z <= best.back().second) continue;
    auto place = std::find_if(best.begin(), best.end(), [z](const auto& entry) { return z > entry.second; });
    best.insert(place, {static_cast<TokenId>(id), z});
    if (best.size() > count) best.pop_back();
  }
  return best;
}

}  // namespace

TokenLogprobs RawLogprobs(std::span<const float> logits, TokenId id, uint32_t num_top) {
  CHECK(id >= 0 && static_cast<size_t>(id) < logits.size()) << "id " << id << " of " << logits.size();
  const float max = *std::max_element(logits.begin(), logits.end());
  const double log_sum = static_cast<double>(max) + PortableLog(SoftmaxSum(logits, max));
  const float chosen = logits[id];

  TokenLogprobs out;
  out.logprob = static_cast<float>(chosen - log_sum);
  out.rank = static_cast<uint32_t>(
      std::count_if(logits.begin(), logits.end(), [chosen](float z) { return z >= chosen; }));
  out.top = Best(logits, num_top);
  for (auto& [top_id, value] : out.top) value = static_cast<float>(value - log_sum);
  return out;
}

Status CheckFinite(std::span<const float> logits) {
  // One pass without branches, since nearly every row is finite.
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t bad = 0;
  for (const float z : logits) bad |= (std::bit_cast<uint32_t>(z) & kExponent) == kExponent ? 1u : 0u;
  if (bad == 0) return OkStatus();
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!std::isfinite(logits[id])) {
      return DataLossError(
          "logits: want finite values, found {} at id {} of {}; the weights or the activations "
          "overflowed",
          logits[id], id, logits.size());
    }
  }
  return OkStatus();
}

}  // namespace paceline
