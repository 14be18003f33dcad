// The draw against a slow reading of its definition, worked examples of truncation, and its law.
#include "common/decoder/token_draw.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

constexpr float kMasked = -std::numeric_limits<float>::infinity();

std::vector<float> LogOf(std::vector<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<TokenId> SurvivorIds(const std::vector<float>& logits, const SamplingParams& params) {
  const std::vector<Candidate> survivors = *Survivors(logits, params);
  std::vector<TokenId> ids;
  for (const Candidate& candidate : survivors) ids.push_back(candidate.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

// The definition, word for word: sort everything, mask, add noise to everything.
TokenId SlowDraw(const std::vector<float>& logits, const SamplingParams& params, const NoiseKey& key) {
  std::vector<double> z;
  for (const float logit : logits) z.push_back(logit / params.temperature);
  std::vector<size_t> order(z.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return z[a] > z[b]; });
  const double best = z[order[0]];
  size_t kept = z.size();
  if (params.min_p > 0) {
    kept = std::count_if(z.begin(), z.end(), [&](double v) { return std::exp(v - best) >= params.min_p; });
  }
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < kept) {
    const double kth = z[order[params.top_k - 1]];
    kept = std::count_if(z.begin(), z.end(), [&](double v) { return v >= kth; });
  }
  double total = 0;
  for (size_t i = 0; i < kept; ++i) total += std::exp(z[order[i]] - best);
  double mass = 0;
  TokenId winner = -1;
  double winning = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < kept && (i == 0 || mass < params.top_p * total); ++i) {
    mass += std::exp(z[order[i]] - best);
    const double score = z[order[i]] + GumbelAt(key, order[i]);
    if (score > winning) {
      winning = score;
      winner = static_cast<TokenId>(order[i]);
    }
  }
  return winner;
}

TEST(TokenDraw, EqualsTheSlowDefinitionUnderEveryTruncation) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  DrawScratch scratch;
  for (const size_t vocab_size : {1u, 2u, 3u, 5u, 63u, 64u, 65u, 4099u}) {
    std::vector<float> logits(vocab_size);
    for (float& z : logits) z = normal(random);
    for (const float temperature : {0.25f, 1.0f, 2.0f, 8.0f}) {
      for (const int top_k : {0, 1, 2, 40, 5000}) {
        for (const float top_p : {1.0f, 0.9f, 0.3f}) {
          for (const float min_p : {0.0f, 0.05f}) {
            SamplingParams params;
            params.temperature = temperature;
            params.top_k = top_k;
            params.top_p = top_p;
            params.min_p = min_p;
            for (uint32_t position = 0; position < 8; ++position) {
              const NoiseKey key{.seed = 3, .position = position};
              ASSERT_EQ(*DrawToken(logits, params, key, scratch), SlowDraw(logits, params, key))
                  << "vocab " << vocab_size << " T " << temperature << " k " << top_k << " p " << top_p
                  << " min_p " << min_p << " position " << position;
            }
          }
        }
      }
    }
  }
}

TEST(TokenDraw, TopPOfTheWorkedExampleDropsTheLast) {
  SamplingParams params;
  params.top_p = 0.7f;
  EXPECT_THAT(SurvivorIds(LogOf({0.5, 0.3, 0.2}), params), ElementsAre(0, 1));
}

TEST(TokenDraw, MinPOfTheWorkedExampleDropsTheLast) {
  SamplingParams params;
  params.min_p = 0.5f;
  EXPECT_THAT(SurvivorIds(LogOf({0.5, 0.3, 0.2}), params), ElementsAre(0, 1));
}

TEST(TokenDraw, TopKKeepsAllTiesAtTheThreshold) {
  SamplingParams params;
  params.top_k = 2;
  EXPECT_THAT(SurvivorIds({1, 3, 2, 2, 0, 2}, params), ElementsAre(1, 2, 3, 5));
}

TEST(TokenDraw, TopPTakesTheLowestIdsAmongEquals) {
  SamplingParams params;
  params.top_p = 0.5f;
  EXPECT_THAT(SurvivorIds({1, 1, 1, 1}, params), ElementsAre(0, 1));
}

TEST(TokenDraw, TopPAlwaysKeepsTheBest) {
  SamplingParams params;
  params.top_p = 1e-6f;
  EXPECT_THAT(SurvivorIds({0, 5, 1}, params), ElementsAre(1));
}

TEST(TokenDraw, TruncationNeverBringsAMaskedIdBack) {
  SamplingParams params;
  params.top_k = 3;
  params.top_p = 0.999f;
  EXPECT_THAT(SurvivorIds({kMasked, 5, kMasked, 1}, params), ElementsAre(1, 3));
}

TEST(TokenDraw, MinPCountsAfterTemperature) {
  SamplingParams params;
  params.min_p = 0.5f;
  params.temperature = 4.0f;
  EXPECT_THAT(SurvivorIds(LogOf({0.8, 0.19, 0.01}), params), ElementsAre(0, 1));
}

TEST(TokenDraw, GreedyTakesTheLowestIdOfEqualsAndIgnoresTruncation) {
  SamplingParams params;
  params.temperature = 0;
  params.top_k = 1;
  DrawScratch scratch;
  EXPECT_EQ(*DrawToken(std::vector<float>{1, 7, 7, 2}, params, {}, scratch), 1);
}

TEST(TokenDraw, TinyTemperaturesAreRaised) {
  const std::vector<float> logits = {1.0f, 1.004f, 1.002f};
  SamplingParams low, raised;
  low.temperature = 0.001f;
  raised.temperature = 0.01f;
  DrawScratch scratch;
  bool other_than_best = false;
  for (uint32_t position = 0; position < 100; ++position) {
    const NoiseKey key{.position = position};
    EXPECT_EQ(*DrawToken(logits, low, key, scratch), *DrawToken(logits, raised, key, scratch));
    other_than_best |= *DrawToken(logits, low, key, scratch) != 1;
  }
  EXPECT_TRUE(other_than_best);
}

TEST(TokenDraw, EverythingMaskedIsAnError) {
  SamplingParams params;
  DrawScratch scratch;
  for (const float temperature : {0.0f, 1.0f}) {
    params.temperature = temperature;
    const auto drawn = DrawToken(std::vector<float>{kMasked, kMasked}, params, {}, scratch);
    EXPECT_EQ(drawn.status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

// Chi-square of `counts` against `p` over `draws`; 99.9 % quantiles for 1 to 5 degrees of freedom.
void ExpectLaw(const std::vector<int>& counts, const std::vector<double>& p, int draws) {
  constexpr double kQuantile[] = {0, 10.83, 13.82, 16.27, 18.47, 20.52};
  double chi2 = 0;
  int degrees = -1;
  for (size_t id = 0; id < p.size(); ++id) {
    if (p[id] == 0) {
      EXPECT_EQ(counts[id], 0) << "id " << id;
      continue;
    }
    const double expected = p[id] * draws;
    chi2 += (counts[id] - expected) * (counts[id] - expected) / expected;
    ++degrees;
  }
  ASSERT_LE(degrees, 5);
  EXPECT_LT(chi2, kQuantile[degrees]);
}

std::vector<int> Count(const std::vector<float>& logits, const SamplingParams& params, int draws) {
  std::vector<int> counts(logits.size());
  DrawScratch scratch;
  for (int i = 0; i < draws; ++i) {
    const NoiseKey key{.seed = static_cast<uint64_t>(i / 100), .position = static_cast<uint32_t>(i % 100)};
    ++counts[*DrawToken(logits, params, key, scratch)];
  }
  return counts;
}

TEST(TokenDraw, LawIsTheSoftmax) {
  const std::vector<double> p = {0.4, 0.05, 0.25, 0.1, 0.2};
  ExpectLaw(Count(LogOf(p), {}, 40000), p, 40000);
}

TEST(TokenDraw, LawUnderTopPIsTheRenormalisedNucleus) {
  SamplingParams params;
  params.top_p = 0.7f;
  ExpectLaw(Count(LogOf({0.5, 0.3, 0.2}), params, 40000), {0.625, 0.375, 0}, 40000);
}

TEST(TokenDraw, LawUnderTemperatureIsThePowerOfTheSoftmax) {
  SamplingParams params;
  params.temperature = 0.5f;
  const double total = 0.5 * 0.5 + 0.3 * 0.3 + 0.2 * 0.2;
  ExpectLaw(Count(LogOf({0.5, 0.3, 0.2}), params, 40000), {0.25 / total, 0.09 / total, 0.04 / total}, 40000);
}

// A filter followed by argmax would show one token only.
TEST(TokenDraw, B008_AllThreeTokensOccurOver300Seeds) {
  const std::vector<float> logits = {1.0f, 0.9f, 0.8f};
  std::vector<int> counts(3);
  DrawScratch scratch;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    ++counts[*DrawToken(logits, {}, {.seed = seed, .position = 12}, scratch)];
  }
  const double total = std::exp(1.0) + std::exp(0.9) + std::exp(0.8);
  ExpectLaw(counts, {std::exp(1.0) / total, std::exp(0.9) / total, std::exp(0.8) / total}, 300);
}

// The noise is shared, so a drafter that samples from q agrees with the target's p at least as often as the
// coupling's bound (arXiv 2408.07978).
TEST(TokenDraw, DrafterWithTheSameNoiseAgreesAsOftenAsTheCouplingPromises) {
  const std::vector<double> p = {0.5, 0.3, 0.2}, q = {0.3, 0.4, 0.3};
  const std::vector<float> target = LogOf(p), draft = LogOf(q);
  double distance = 0;
  for (size_t i = 0; i < p.size(); ++i) distance += std::abs(p[i] - q[i]) / 2;
  DrawScratch scratch;
  const int draws = 20000;
  int agreed = 0;
  for (int i = 0; i < draws; ++i) {
    const NoiseKey key{.seed = 4, .position = static_cast<uint32_t>(i)};
    agreed += *DrawToken(target, {}, key, scratch) == *DrawToken(draft, {}, key, scratch);
  }
  EXPECT_GT(agreed / static_cast<double>(draws), (1 - distance) / (1 + distance) - 0.01);
}

}  // namespace
}  // namespace paceline
