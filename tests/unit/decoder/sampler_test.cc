// SequenceSampler: the same draws whatever was drafted, in whatever order, by whichever sampler object.
#include "common/decoder/sampler.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kVocab = 61;

// A model whose logits are a hash of the prefix: the right output of any schedule is known without weights.
std::vector<float> HashLogits(std::span<const TokenId> prefix) {
  uint64_t digest = 1;
  for (const TokenId id : prefix) digest = digest * 6364136223846793005ull + static_cast<uint64_t>(id) + 1;
  std::mt19937_64 random(digest);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(kVocab);
  for (float& z : logits) z = normal(random);
  return logits;
}

SequenceSampler MakeSampler(const SamplingParams& params, std::span<const TokenId> ids, uint32_t prompt_len) {
  return *SequenceSampler::Create({kVocab, kVocab}, params, ids, prompt_len);
}

struct Output {
  std::vector<TokenId> ids;
  std::vector<TokenLogprobs> logprobs;
  bool operator==(const Output&) const = default;
};

Output PlainDecode(const SamplingParams& params, std::vector<TokenId> ids, size_t count) {
  SequenceSampler sampler = MakeSampler(params, ids, ids.size());
  SamplerScratch scratch;
  Output out;
  while (out.ids.size() < count) {
    const DrawnToken drawn = *sampler.Draw(HashLogits(ids), ids.size(), scratch);
    ids.push_back(drawn.id);
    sampler.Append(drawn.id);
    out.ids.push_back(drawn.id);
    if (drawn.has_logprobs()) out.logprobs.push_back(drawn.logprobs);
  }
  return out;
}

// Rounds of `draft_len` drafts that are right now and then, verified by equality.
Output SpeculativeDecode(const SamplingParams& params, std::vector<TokenId> ids, size_t count,
                         size_t draft_len, const Output& plain) {
  SequenceSampler sampler = MakeSampler(params, ids, ids.size());
  SamplerScratch scratch;
  std::mt19937 random(static_cast<uint32_t>(draft_len));
  Output out;
  while (out.ids.size() < count) {
    std::vector<TokenId> drafts;
    for (size_t i = 0; i < draft_len; ++i) {
      const size_t index = out.ids.size() + i;
      const bool right = index < plain.ids.size() && random() % 4 != 0;
      drafts.push_back(right ? plain.ids[index] : static_cast<TokenId>(random() % kVocab));
    }
    std::vector<TokenId> emitted;
    std::vector<TokenId> row_prefix = ids;
    for (size_t row = 0;; ++row) {
      const DrawnToken drawn = *sampler.Draw(HashLogits(row_prefix), sampler.next_position(), scratch);
      emitted.push_back(drawn.id);
      if (drawn.has_logprobs()) out.logprobs.push_back(drawn.logprobs);
      if (row == drafts.size() || drawn.id != drafts[row]) break;
      sampler.PushDraft(drafts[row]);
      row_prefix.push_back(drafts[row]);
    }
    sampler.PopDrafts();
    for (const TokenId id : emitted) {
      sampler.Append(id);
      ids.push_back(id);
      out.ids.push_back(id);
    }
  }
  out.ids.resize(count);
  if (!out.logprobs.empty()) out.logprobs.resize(count);
  return out;
}

SamplingParams EverythingOn() {
  SamplingParams params;
  params.temperature = 0.8f;
  params.top_p = 0.9f;
  params.top_k = 30;
  params.min_p = 0.01f;
  params.repetition_penalty = 1.1f;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.3f;
  params.logit_bias = {{7, 2.0f}, {9, -100.0f}};
  params.bad_words = {{3}, {5, 6}};
  params.eos_token_ids = {1};
  params.stop_token_ids = {1, 2};
  params.min_tokens = 20;
  params.logprobs = 3;
  params.seed = 99;
  return params;
}

TEST(SequenceSampler, B031_IdsAndLogprobsAreEqualWithAndWithoutDrafts) {
  const std::vector<TokenId> prompt = {4, 8, 15, 16, 23, 42};
  const Output plain = PlainDecode(EverythingOn(), prompt, 60);
  for (const size_t draft_len : {1u, 2u, 5u, 8u, 48u}) {
    EXPECT_EQ(SpeculativeDecode(EverythingOn(), prompt, 60, draft_len, plain), plain) << "k " << draft_len;
  }
}

TEST(SequenceSampler, B035_GreedyWithPresencePenaltyIsEqualForEveryDraftLength) {
  SamplingParams params;
  params.temperature = 0;
  params.presence_penalty = 1.5f;
  const Output plain = PlainDecode(params, {1, 2, 3}, 64);
  for (const size_t draft_len : {2u, 8u, 48u}) {
    EXPECT_EQ(SpeculativeDecode(params, {1, 2, 3}, 64, draft_len, plain), plain) << "k " << draft_len;
  }
}

TEST(SequenceSampler, B034_PresencePenaltyChangesTheGreedyText) {
  SamplingParams without, with;
  without.temperature = with.temperature = 0;
  with.presence_penalty = 2.0f;
  EXPECT_NE(PlainDecode(without, {1, 2}, 40), PlainDecode(with, {1, 2}, 40));
}

TEST(SequenceSampler, B010_SeededTextDoesNotDependOnDraftsOrOnTheOrderOfRequests) {
  SamplingParams params;
  params.seed = 7;
  params.top_k = 40;
  const Output first = PlainDecode(params, {1, 2, 3}, 32);
  const Output other = PlainDecode(params, {9, 9}, 32);
  EXPECT_EQ(PlainDecode(params, {1, 2, 3}, 32), first);
  EXPECT_EQ(SpeculativeDecode(params, {9, 9}, 32, 4, other), other);
  EXPECT_EQ(SpeculativeDecode(params, {1, 2, 3}, 32, 4, first), first);
}

TEST(SequenceSampler, B011_TheSameRequestTwiceGivesTheSameText) {
  SamplingParams params;
  params.temperature = 2.0f;
  params.seed = 42;
  EXPECT_EQ(PlainDecode(params, {10, 20, 30}, 10), PlainDecode(params, {10, 20, 30}, 10));
}

TEST(SequenceSampler, B014_AnUnseededNeighbourDoesNotChangeASeededSequence) {
  SamplingParams seeded;
  seeded.temperature = 0.8f;
  seeded.seed = 42;
  const Output alone = PlainDecode(seeded, {1, 2, 3}, 16);
  for (uint64_t entropy = 0; entropy < 4; ++entropy) {
    SamplingParams drawn_seed = seeded;
    drawn_seed.seed = 1000 + entropy;
    std::vector<TokenId> ids = {1, 2, 3}, neighbour = {4, 5, 6};
    SequenceSampler a = MakeSampler(seeded, ids, 3), b = MakeSampler(drawn_seed, neighbour, 3);
    SamplerScratch shared;
    for (int i = 0; i < 16; ++i) {
      neighbour.push_back(b.Draw(HashLogits(neighbour), neighbour.size(), shared)->id);
      b.Append(neighbour.back());
      ids.push_back(a.Draw(HashLogits(ids), ids.size(), shared)->id);
      a.Append(ids.back());
    }
    EXPECT_EQ(std::vector<TokenId>(ids.begin() + 3, ids.end()), alone.ids);
  }
}

TEST(SequenceSampler, ChoicesOfOnePromptDiffer) {
  SamplingParams params;
  params.seed = 5;
  const Output first = PlainDecode(params, {1, 2, 3}, 16);
  params.choice = 1;
  EXPECT_NE(PlainDecode(params, {1, 2, 3}, 16), first);
}

TEST(SequenceSampler, ASamplerMadeAnewHalfWayGoesOnWithTheSameText) {
  std::vector<TokenId> ids = {4, 8, 15};
  const Output whole = PlainDecode(EverythingOn(), ids, 40);
  ids.insert(ids.end(), whole.ids.begin(), whole.ids.begin() + 17);

  SequenceSampler revived = MakeSampler(EverythingOn(), ids, 3);
  SamplerScratch scratch;
  for (size_t i = 17; i < 40; ++i) {
    ids.push_back(revived.Draw(HashLogits(ids), ids.size(), scratch)->id);
    revived.Append(ids.back());
    ASSERT_EQ(ids.back(), whole.ids[i]) << "output " << i;
  }
}

// q(a) = 0.2 is the draft's best, p(a) = 0.3, p(b) = 0.5: greedy is one-hot, so b, always.
TEST(SequenceSampler, B005_GreedyRefusesADraftThatTheTargetOnlyFindsLikely) {
  SamplingParams params;
  params.temperature = 0;
  const SequenceSampler sampler = *SequenceSampler::Create({3, 3}, params, {}, 0);
  const std::vector<float> target = {std::log(0.3f), std::log(0.5f), std::log(0.2f)};
  SamplerScratch scratch;
  EXPECT_EQ(sampler.Draw(target, 0, scratch)->id, 1);
}

TEST(SequenceSampler, B176_ANanRowIsAnErrorAndTheSamplerGoesOn) {
  const std::vector<TokenId> ids = {1, 2};
  const SequenceSampler sampler = MakeSampler({}, ids, 2);
  SamplerScratch scratch;
  std::vector<float> logits = HashLogits(ids);
  const DrawnToken before = *sampler.Draw(logits, 2, scratch);
  std::vector<float> poisoned = logits;
  poisoned[60] = std::numeric_limits<float>::quiet_NaN();

  EXPECT_EQ(sampler.Draw(poisoned, 2, scratch).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(sampler.Draw(logits, 2, scratch)->id, before.id);
}

TEST(SequenceSampler, PaddingColumnsAreNeverDrawn) {
  SamplingParams params;
  const SequenceSampler sampler = *SequenceSampler::Create({8, 5}, params, {}, 0);
  SamplerScratch scratch;
  EXPECT_LT(sampler.Draw(std::vector<float>{0, 0, 0, 0, 0, 90, 90, 90}, 0, scratch)->id, 5);
}

TEST(SequenceSampler, LogprobsAreOfTheRawRowWhateverTheRules) {
  SamplingParams params;
  params.temperature = 0;
  params.logprobs = 1;
  params.logit_bias = {{0, 50.0f}};
  const SequenceSampler sampler = *SequenceSampler::Create({3, 3}, params, {}, 0);
  SamplerScratch scratch;
  const DrawnToken drawn =
      *sampler.Draw(std::vector<float>{std::log(0.2f), std::log(0.5f), std::log(0.3f)}, 0, scratch);

  EXPECT_EQ(drawn.id, 0);
  EXPECT_NEAR(drawn.logprobs.logprob, std::log(0.2), 1e-6);
  EXPECT_EQ(drawn.logprobs.rank, 3u);
  EXPECT_EQ(drawn.logprobs.top[0].first, 1);
}

TEST(SequenceSampler, IdsOutsideTheVocabularyAreRefusedByField) {
  SamplingParams params;
  params.logit_bias = {{61, 1.0f}};
  auto made = SequenceSampler::Create({kVocab, kVocab}, params, {}, 0);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(made.status())), HasSubstr("logit_bias: want ids in [0, 61), found 61"));

  const std::vector<TokenId> negative = {-1};
  made = SequenceSampler::Create({kVocab, kVocab}, {}, negative, 1);
  EXPECT_THAT(std::string(Message(made.status())), HasSubstr("found -1"));
}

}  // namespace
}  // namespace paceline
