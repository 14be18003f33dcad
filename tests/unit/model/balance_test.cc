#include "common/model/balance.h"

#include <gtest/gtest.h>

#include "common/model/memory_plan.h"

namespace paceline {
namespace {

ModelConfig Config(uint32_t num_layers) {
  ModelConfig config;
  config.num_layers = num_layers;
  config.num_heads = 8;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.tie_word_embeddings = true;
  return config;
}

// Layers of `layer_bytes` and a tied embedding of `head_bytes`, which the last stage streams as its head.
std::vector<TensorEntry> Entries(uint32_t num_layers, uint64_t layer_bytes, uint64_t head_bytes) {
  std::vector<TensorEntry> entries;
  for (uint32_t l = 0; l < num_layers; ++l) {
    entries.push_back(
        {.name = fmt::format("blk.{}.ffn_up.weight", l), .file_name = "", .bytes = layer_bytes});
  }
  entries.push_back({.name = "token_embd.weight", .file_name = "", .bytes = head_bytes});
  return entries;
}

TEST(Balance, TheHeadCountsOnTheLastStage) {
  const auto stages = BalanceLayers(Config(30), Entries(30, 2, 20), 2);

  ASSERT_TRUE(stages.ok()) << stages.status();
  EXPECT_EQ(DescribePartition(*stages), "20,10");  // 40 and 20 + 20
}

TEST(Balance, WithoutAHeadItIsEven) {
  EXPECT_EQ(DescribePartition(*BalanceLayers(Config(12), Entries(12, 5, 0), 4)), "3,3,3,3");
}

TEST(Balance, EveryStageKeepsALayer) {
  EXPECT_EQ(DescribePartition(*BalanceLayers(Config(4), Entries(4, 1, 1000), 4)), "1,1,1,1");
}

TEST(Balance, MoreStagesThanLayersAreRefusedWithBothNumbers) {
  const auto stages = BalanceLayers(Config(2), Entries(2, 1, 1), 4);

  ASSERT_FALSE(stages.ok());
  EXPECT_NE(Message(stages.status()).find("2 layers"), std::string_view::npos) << stages.status();
}

KvPlanInput Input(const ModelConfig& config) {
  KvPlanInput input;
  input.config = &config;
  input.layers = {0, 4, true, true};
  input.host_bytes = uint64_t{8} << 30;
  input.context_len = 1024;
  input.max_num_seqs = 8;
  return input;
}

TEST(MemoryPlan, ABlockIsKAndVOfEveryLayer) {
  const ModelConfig config = Config(4);
  const auto plan = PlanKvPool(Input(config));

  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->block_bytes, 2u * 16 * 2 * 64 * 2 * 4);  // K and V, tokens, heads, head_dim, bytes, layers
  EXPECT_EQ(plan->blocks, 8u * 1024 / 16) << "no more than all sequences can use";
}

TEST(MemoryPlan, TooLittleNamesNeedAvailableAndWhatWouldFit) {
  const ModelConfig config = Config(4);
  KvPlanInput input = Input(config);
  input.pool_bytes_wanted = 10 * 2 * 16 * 2 * 64 * 2 * 4;  // ten blocks
  const auto plan = PlanKvPool(input);

  ASSERT_FALSE(plan.ok());
  const std::string message(Message(plan.status()));
  EXPECT_NE(message.find("--max-model-len 160"), std::string::npos) << message;
  EXPECT_NE(message.find("available 327680"), std::string::npos) << message;
}

}  // namespace
}  // namespace paceline
