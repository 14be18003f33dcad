#include "common/config/speculative_config.h"

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace paceline {
namespace {

using nlohmann::json;

std::string ErrorOf(const json& object) {
  return std::string(Message(ParseSpeculativeConfig(object).status()));
}

TEST(SpeculativeConfig, NothingMeansNoDrafts) {
  EXPECT_FALSE(ParseSpeculativeConfig(json::object())->enabled());
}

TEST(SpeculativeConfig, OneLookupBoundCopiesTheOther) {
  const auto config =
      ParseSpeculativeConfig({{"method", "ngram"}, {"num_speculative_tokens", 4}, {"prompt_lookup_max", 3}});

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->prompt_lookup_min, 3u);
  EXPECT_EQ(config->prompt_lookup_max, 3u);
}

TEST(SpeculativeConfig, ModelAloneMeansDraftModel) {
  const auto config = ParseSpeculativeConfig({{"model", "d.gguf"}, {"num_speculative_tokens", 128}});

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->method, DraftMethod::kDraftModel);
}

TEST(SpeculativeConfig, KeysOfAnotherMethodAreRefusedWithTheKeysItHas) {
  const std::string error = ErrorOf({{"method", "ngram"}, {"num_speculative_tokens", 4}, {"model", "x"}});

  EXPECT_NE(error.find("speculative-config.model: method ngram has no such key"), std::string::npos) << error;
  EXPECT_NE(error.find("prompt_lookup_min"), std::string::npos);
}

TEST(SpeculativeConfig, RefusalsNameTheWayOut) {
  EXPECT_NE(ErrorOf({{"method", "ngram"}, {"tensor_parallel_size", 2}}).find("draft_tensor_parallel_size"),
            std::string::npos);
  EXPECT_NE(ErrorOf({{"method", "ngram"}, {"disable_by_batch_size", 2}})
                .find("num_speculative_tokens_per_batch_size"),
            std::string::npos);
  EXPECT_NE(ErrorOf({{"method", "ngram_gpu"}}).find("use ngram"), std::string::npos);
  EXPECT_NE(ErrorOf({{"model", "m"}, {"num_speculative_tokens", 3}, {"draft_pipeline_parallel_size", 2}})
                .find("one stage"),
            std::string::npos);
  EXPECT_NE(ErrorOf({{"method", "ngram"}, {"num_speculative_tokens", 129}}).find("1..128"),
            std::string::npos);
  EXPECT_NE(ErrorOf({{"method", "ngram"},
                     {"num_speculative_tokens", 3},
                     {"prompt_lookup_min", 4},
                     {"prompt_lookup_max", 2}})
                .find("greater"),
            std::string::npos);
  EXPECT_NE(
      ErrorOf({{"method", "ngram"}, {"num_speculative_tokens", 3}, {"rejection_sample_method", "block"}})
          .find("rejection_sample_method"),
      std::string::npos);
}

}  // namespace
}  // namespace paceline
