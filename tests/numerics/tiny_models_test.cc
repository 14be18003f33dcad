// Every llama variant against transformers in float32, from the Hugging Face folder and from its GGUF
// conversion.
//
// Reference: tests/numerics/make_tiny_models.py. Bound, in units of 2^-24 of the largest logit: transformers rounds
// rope's angle to float32, up to 24 at position 24, and both sides round each of about 40 operations between id and
// logit, in different orders.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/numerics/golden.h"
#include "tests/support/local_model.h"
#include "tests/support/shared_data.h"

namespace paceline {
namespace {

constexpr uint32_t kNumIds = 24;
constexpr double kBound = (kNumIds + 40) * 0x1p-24;

class TinyModel : public ::testing::TestWithParam<std::string> {
 protected:
  std::string Folder() const { return testing::SourceDir() + "/tests/numerics/tiny/" + GetParam(); }

  void ExpectReferenceLogits(const std::string& model) {
    const std::unique_ptr<WeightSource> source = *OpenModel(model);
    const uint32_t vocab = source->config().vocab_size;
    std::vector<TokenId> ids;
    for (uint32_t i = 0; i < kNumIds; ++i) ids.push_back(static_cast<TokenId>((7 * i + 3) % vocab));
    const std::vector<float> want = testing::ReadFloats(Folder() + "/logits.f32");
    ASSERT_EQ(want.size(), kNumIds * vocab);

    const auto local = *testing::LocalModel::Make(*source, {.num_stages = 2, .kv_dtype = DType::kF32});
    const std::vector<float> got = *local->Run(ids, 0, {.chunk = 10});

    float largest = 0;
    for (const float logit : want) largest = std::max(largest, std::abs(logit));
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(want[i] - got[i])));
    }
    EXPECT_LE(worst, kBound * largest) << "relative error " << worst / largest;
    RecordProperty("relative_error_2^-24", std::to_string(worst / largest * 0x1p24));
  }
};

TEST_P(TinyModel, LogitsOfTheFolderAreThoseOfTransformers) { ExpectReferenceLogits(Folder()); }
TEST_P(TinyModel, LogitsOfTheGgufFileAreThoseOfTransformers) {
  ExpectReferenceLogits(Folder() + "/model.gguf");
}

INSTANTIATE_TEST_SUITE_P(Variants, TinyModel,
                         ::testing::Values("gqa", "mha_tied", "head_dim", "rope_linear", "rope_llama3",
                                           "attention_bias", "mlp_bias", "mistral"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace paceline
