// SmolLM2-135M and its small draft against their dequantised weights, teacher-forced along the reference
// text.
//
// Reference: tests/numerics/make_smollm2_golden.py (float64). Ours rounds activations to int8 for Q4_1
// weights and K and V to F16, so the logits are near, not equal: cosine at every position, and the same
// argmax wherever the reference is decided by more than twice the largest difference seen.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/numerics/golden.h"
#include "tests/support/local_generator.h"
#include "tests/support/shared_data.h"

namespace paceline {
namespace {

using testing::Golden;

constexpr double kCosineMin = 0.999;

class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::SharedDir().empty()) GTEST_SKIP() << "no shared test data beside the repository";
    target_path_ = testing::RealModelPath();
    draft_path_ = testing::SharedDir() + "/models/smollm2-135m-draft/smollm2-135m-draft-Q4_1.gguf";
    vectors_ = nlohmann::json::parse(
        testing::ReadFileOrDie(testing::SharedDir() + "/models/reference_vectors.json"));
    prompt_ = vectors_["prompt_ids"].get<std::vector<TokenId>>();
    greedy_ = vectors_["greedy_ids_extended"].get<std::vector<TokenId>>();
  }

  std::vector<TokenId> Forced() const {
    std::vector<TokenId> ids = prompt_;
    ids.insert(ids.end(), greedy_.begin(), greedy_.end());
    return ids;
  }

  void ExpectNearGolden(const std::string& model, const std::string& golden_name) {
    const Golden golden = testing::ReadGolden(testing::SourceDir() + "/tests/numerics/" + golden_name);
    const std::vector<TokenId> ids = Forced();
    ASSERT_EQ(golden.rows.size(), ids.size());
    const std::unique_ptr<WeightSource> source = *OpenModel(model);
    const auto local = *testing::LocalModel::Make(*source, {.num_threads = 2, .positions_max = 256});
    const std::vector<float> logits = *local->Run(ids, 0, {});

    double largest_difference = 0, cosine_min = 1;
    const size_t vocab = source->config().vocab_size;
    for (size_t position = 0; position < ids.size(); ++position) {
      const auto row = std::span(logits).subspan(position * vocab, vocab);
      const testing::Distance distance = testing::Compare(golden, golden.rows[position], row);
      EXPECT_GE(distance.cosine, kCosineMin) << "position " << position;
      cosine_min = std::min(cosine_min, distance.cosine);
      largest_difference = std::max(largest_difference, distance.largest_difference);
    }
    size_t decided = 0;
    for (size_t position = 0; position < ids.size(); ++position) {
      if (golden.rows[position].gap <= 2 * largest_difference) continue;
      const auto row = std::span(logits).subspan(position * vocab, vocab);
      EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), golden.rows[position].argmax)
          << "position " << position << " gap " << golden.rows[position].gap;
      ++decided;
    }
    EXPECT_GT(decided, ids.size() / 4)
        << "the largest difference, " << largest_difference << ", decides nothing";
    RecordProperty("cosine_min", std::to_string(cosine_min));
    RecordProperty("largest_difference", std::to_string(largest_difference));
    RecordProperty("decided_positions", std::to_string(decided));
  }

  std::string target_path_, draft_path_;
  nlohmann::json vectors_;
  std::vector<TokenId> prompt_, greedy_;
};

TEST_F(SmolLm2, TargetLogitsAreNearThoseOfTheDequantisedWeights) {
  if (target_path_.empty()) GTEST_SKIP() << "no SmolLM2 file; deploy/fetch-model gets it";
  ExpectNearGolden(target_path_, "smollm2.golden");
}

TEST_F(SmolLm2, DraftLogitsAreNearThoseOfTheDequantisedWeights) {
  ExpectNearGolden(draft_path_, "smollm2_draft.golden");
}

// Rounds of the reference: from the target's text, four greedy ids of the draft. A draft id may differ only
// where the reference chain was nearly undecided, which the vectors do not say; so most rounds must agree
// whole.
TEST_F(SmolLm2, DraftChainsAreThoseOfTheReferenceRounds) {
  const auto draft = *testing::LocalGenerator::Open(draft_path_, {.num_threads = 2, .positions_max = 256});
  SamplingParams params;
  params.temperature = 0;
  int ids_seen = 0, ids_equal = 0;
  for (const auto& round : vectors_["drafts"]["draft_lm"]["rounds"]) {
    const auto want = round["draft"].get<std::vector<TokenId>>();
    std::vector<TokenId> prefix = prompt_;
    const size_t newest = round["newest_token_index"].get<size_t>();
    prefix.insert(prefix.end(), greedy_.begin(), greedy_.begin() + newest + 1);
    ASSERT_EQ(prefix.back(), round["newest_token"].get<TokenId>());
    params.max_tokens = static_cast<uint32_t>(want.size());
    const testing::Generated got = *draft->Generate(prefix, params);
    const auto [a, b] = std::mismatch(want.begin(), want.end(), got.ids.begin());
    ids_seen += static_cast<int>(a - want.begin()) + (a == want.end() ? 0 : 1);
    ids_equal += static_cast<int>(a - want.begin());
  }
  EXPECT_GE(ids_equal, ids_seen - 2) << ids_equal << " of " << ids_seen;
}

}  // namespace
}  // namespace paceline
