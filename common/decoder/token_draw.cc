#include "common/decoder/token_draw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "common/base/portable_math.h"
#include "common/decoder/softmax_sum.h"

namespace paceline {
namespace {

constexpr float kMinTemperature = 0.01f;  // smaller positive temperatures are raised to it
constexpr double kLn2 = 0.6931471805599453;

// An upper bound of the noise these bits make, without a logarithm. With u = 1 - w and w >= 2^-e:
// -log(-log u) <= -log w <= e ln 2, and w = (2^24 - bits - 1/2) / 2^24 >= 2^-e for e = 25 - bit_width(2^24 -
// bits - 1), where a width of 0 stands for w = 2^-25. The slack covers the noise's rounding to float.
double NoiseBound(uint32_t bits24) { return (25 - std::bit_width(0xFFFFFFu - bits24)) * kLn2 + 1e-5; }

// Keeps the best of z + noise; asks for the noise only where it could win.
class NoisyMax {
 public:
  // Whether a logit of at most `z` with bits of at most `bits24` may still win.
  bool CanWin(float z, uint32_t bits24) const { return z + NoiseBound(bits24) >= score_; }
  bool CanWin(float z) const { return z + static_cast<double>(kGumbelBound) >= score_; }
  void Offer(TokenId id, float z, uint32_t bits24) {
    if (!CanWin(z, bits24)) return;
    const double score = static_cast<double>(z) + GumbelFromBits(bits24);
    if (score > score_ || (score == score_ && id < id_)) {
      score_ = score;
      id_ = id;
    }
  }
  TokenId id() const { return id_; }

 private:
  double score_ = -std::numeric_limits<double>::infinity();
  TokenId id_ = std::numeric_limits<TokenId>::max();
};

TokenId DrawFromAll(std::span<const float> scaled, TokenId best, const NoiseKey& key) {
  NoisyMax max;
  const uint32_t best_index = static_cast<uint32_t>(best);
  // First, so that most others cannot win any more.
  max.Offer(best, scaled[best], NoiseBits(key, best_index / 4)[best_index % 4]);
  for (size_t begin = 0; begin < scaled.size(); begin += 4) {
    const size_t end = std::min(begin + 4, scaled.size());
    const float quad_max = *std::max_element(scaled.begin() + begin, scaled.begin() + end);
    if (!max.CanWin(quad_max)) continue;
    const auto bits = NoiseBits(key, static_cast<uint32_t>(begin / 4));
    if (!max.CanWin(quad_max, std::max({bits[0], bits[1], bits[2], bits[3]}))) continue;
    for (size_t id = begin; id < end; ++id) max.Offer(static_cast<TokenId>(id), scaled[id], bits[id % 4]);
  }
  return max.id();
}

TokenId DrawFromCandidates(std::span<const Candidate> candidates, const NoiseKey& key) {
  NoisyMax max;
  for (const auto& [z, id] : candidates) {
    if (!max.CanWin(z)) continue;
    const uint32_t index = static_cast<uint32_t>(id);
    max.Offer(id, z, NoiseBits(key, index / 4)[index % 4]);
  }
  return max.id();
}

// The k-th largest value, by a heap of the k largest so far: most values fail the first comparison.
float KthLargest(std::span<const float> values, size_t k, std::vector<float>& heap) {
  heap.assign(values.begin(), values.begin() + k);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  for (const float value : values.subspan(k)) {
    if (value <= heap.front()) continue;
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.back() = value;
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  return heap.front();
}

bool Truncates(const SamplingParams& params, size_t vocab_size) {
  return params.min_p > 0 || params.top_p < 1 ||
         (params.top_k > 0 && static_cast<size_t>(params.top_k) < vocab_size);
}

// The order of top_p: larger first, among equals the lower id.
bool Before(const Candidate& a, const Candidate& b) { return a.z != b.z ? a.z > b.z : a.id < b.id; }

// Cuts `candidates` (all that min_p and top_k left, or a superset of top_p's survivors) where the mass before
// reaches `mass_wanted`. Masses are relative to exp(max). Sorts no further than needed: a nucleus is short as
// a rule.
void KeepNucleus(std::vector<Candidate>& candidates, double mass_wanted, float max) {
  double mass = 0;
  size_t kept = 0;
  for (size_t sorted = 0; sorted < candidates.size();) {
    const auto begin = candidates.begin() + sorted;
    const auto end = candidates.begin() + std::min(8 * sorted + 256, candidates.size());
    if (end != candidates.end()) std::nth_element(begin, end, candidates.end(), Before);
    std::sort(begin, end, Before);
    sorted = end - candidates.begin();
    for (; kept < sorted; ++kept) {
      if (kept > 0 && mass >= mass_wanted) {
        candidates.resize(kept);
        return;
      }
      mass += PortableExp(static_cast<double>(candidates[kept].z) - max);
    }
  }
}

// Fills scratch.candidates. `max` is the largest of the scaled logits.
void Truncate(const SamplingParams& params, float max, DrawScratch& scratch) {
  const std::span<const float> scaled = scratch.scaled;
  constexpr double kNoFloor = -std::numeric_limits<double>::infinity();
  double floor = kNoFloor;
  if (params.min_p > 0) floor = max + PortableLog(params.min_p);
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < scaled.size()) {
    // Where min_p left fewer than k, the k-th largest of all lies below min_p's floor and changes nothing.
    floor = std::max(floor, static_cast<double>(KthLargest(scaled, params.top_k, scratch.heap)));
  }

  double total = 0;
  double threshold = floor;
  const bool whole_vocab = params.top_p < 1 && floor == kNoFloor;
  if (whole_vocab) {
    // All ids below (1 - top_p) / V together have less mass than top_p cuts, so none of them survives; half
    // of it leaves room for rounding. What is left is short enough to sort.
    total = SoftmaxSum(scaled, max);
    const double cut = total * (1.0 - static_cast<double>(params.top_p)) / (2.0 * scaled.size());
    threshold = max + PortableLog(cut);
  }
  scratch.candidates.clear();
  for (size_t id = 0; id < scaled.size(); ++id) {
    if (scaled[id] >= threshold && !std::isinf(scaled[id])) {
      scratch.candidates.push_back({scaled[id], static_cast<TokenId>(id)});
    }
  }
  if (params.top_p >= 1) return;
  if (!whole_vocab) {
    for (const Candidate& candidate : scratch.candidates) {
      total += PortableExp(static_cast<double>(candidate.z) - max);
    }
  }
  KeepNucleus(scratch.candidates, static_cast<double>(params.top_p) * total, max);
}

// The largest of the values, in lanes that compilers turn into vectors; -inf when there are none.
float Largest(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<float>::infinity());
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  float largest = *std::max_element(lanes, lanes + kLanes);
  for (const float value : values.subspan(whole)) largest = std::max(largest, value);
  return largest;
}

StatusOr<size_t> CheckedBest(std::span<const float> logits) {
  const float largest = Largest(logits);
  if (largest == -std::numeric_limits<float>::infinity()) {
    return FailedPreconditionError(
        "no token is allowed: allowed_token_ids, bad_words and min_tokens together mask all {} ids",
        logits.size());
  }
  const auto best = std::find(logits.begin(), logits.end(), largest);  // the first of equals: lowest id
  if (std::isinf(largest)) {
    return DataLossError("logits: the penalties of the request push id {} to infinity",
                         best - logits.begin());
  }
  return static_cast<size_t>(best - logits.begin());
}

// Fills scratch.scaled; answers the index of its largest value.
StatusOr<size_t> Scale(std::span<const float> logits, float temperature, DrawScratch& scratch) {
  const float t = std::max(temperature, kMinTemperature);
  scratch.scaled.resize(logits.size());
  std::transform(logits.begin(), logits.end(), scratch.scaled.begin(), [t](float z) { return z / t; });
  return CheckedBest(scratch.scaled);
}

}  // namespace

StatusOr<TokenId> DrawToken(std::span<const float> logits, const SamplingParams& params, const NoiseKey& key,
                            DrawScratch& scratch) {
  if (params.greedy()) {
    ASSIGN_OR_RETURN(const size_t best, CheckedBest(logits));
    return static_cast<TokenId>(best);
  }
  ASSIGN_OR_RETURN(const size_t best, Scale(logits, params.temperature, scratch));
  if (!Truncates(params, logits.size())) {
    return DrawFromAll(scratch.scaled, static_cast<TokenId>(best), key);
  }
  Truncate(params, scratch.scaled[best], scratch);
  return DrawFromCandidates(scratch.candidates, key);
}

StatusOr<std::vector<Candidate>> Survivors(std::span<const float> logits, const SamplingParams& params) {
  DrawScratch scratch;
  if (params.greedy()) {
    ASSIGN_OR_RETURN(const size_t best, CheckedBest(logits));
    return std::vector<Candidate>{{logits[best], static_cast<TokenId>(best)}};
  }
  ASSIGN_OR_RETURN(const size_t best, Scale(logits, params.temperature, scratch));
  Truncate(params, scratch.scaled[best], scratch);
  return scratch.candidates;
}

}  // namespace paceline
