#include "common/model/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_llama.h"
#include "tests/unit/model/model_test_util.h"

namespace paceline {
namespace {

using ::paceline::testing::TempDir;
using ::paceline::testing::TinyLlamaOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Counts(std::string_view spec, uint32_t num_layers, uint32_t num_stages) {
  const auto stages = PartitionLayers(spec, num_layers, num_stages);
  return stages.ok() ? DescribePartition(*stages) : std::string(Message(stages.status()));
}

TEST(Partition, B076_ThirtyLayersOnFourStages) { EXPECT_EQ(Counts("even", 30, 4), "7,8,8,7"); }

TEST(Partition, B077_FewerLayersThanStagesIsRefusedWithBothNumbers) {
  EXPECT_THAT(Counts("even", 2, 4), AllOf(HasSubstr("2 layers"), HasSubstr("size 4")));
  EXPECT_THAT(Counts("even", 2, 0), HasSubstr("want 1 or more"));
}

TEST(Partition, EvenCountsDifferByOneAndCoverEveryLayerOnce) {
  for (uint32_t layers = 1; layers <= 40; ++layers) {
    for (uint32_t count = 1; count <= layers; ++count) {
      const auto stages = PartitionLayers("even", layers, count);
      ASSERT_TRUE(stages.ok());
      ASSERT_EQ(stages->size(), count);
      uint32_t next = 0;
      for (size_t i = 0; i < stages->size(); ++i) {
        const StageLayers& stage = (*stages)[i];
        EXPECT_EQ(stage.first, next);
        EXPECT_GE(stage.count(), layers / count);
        EXPECT_LE(stage.count(), layers / count + 1);
        EXPECT_EQ(stage.has_embedding, i == 0);
        EXPECT_EQ(stage.has_head, i + 1 == stages->size());
        next = stage.end;
      }
      EXPECT_EQ(next, layers);
      if (layers % count != 0) {
        EXPECT_EQ(stages->back().count(), layers / count) << "the head is there too";
      }
    }
  }
}

TEST(Partition, ListsAreTakenAsTheyAreOrRefusedWithBothNumbers) {
  EXPECT_EQ(Counts("10,12,8", 30, 3), "10,12,8");
  EXPECT_EQ(Counts("30", 30, 1), "30");
  EXPECT_THAT(Counts("10,12,10", 30, 3), AllOf(HasSubstr("sum to 32"), HasSubstr("30 layers")));
  EXPECT_THAT(Counts("15,15", 30, 3), AllOf(HasSubstr("2 counts"), HasSubstr("3 stages")));
  EXPECT_THAT(Counts("4294967295,4294967295,32", 30, 3), HasSubstr("sum to 8589934622"));
  for (const char* spec :
       {"", "10,,20", "10,20,", "0,15,15", "-1,16,15", "a", "10 ,10,10", "4294967296,1,1", "auto"}) {
    EXPECT_THAT(Counts(spec, 30, 3), HasSubstr("want \"even\" or layer counts")) << spec;
  }
}

TEST(Partition, B071_EachStageReadsItsOwnTensorsAndATiedHeadReadsTheEmbedding) {
  TempDir dir;
  for (const bool tied : {false, true}) {
    TinyLlamaOptions options;
    options.num_layers = 3;
    options.tied = tied;
    options.rope_scaling = {RopeScalingKind::kLlama3, 8, 1, 4, 64};
    const auto source = OpenModel(dir.Write("m.gguf", TinyLlamaGguf(options).Build()));
    ASSERT_TRUE(source.ok()) << source.status();
    const ModelConfig& config = (*source)->config();
    const std::vector<TensorEntry> entries = (*source)->Entries();
    const auto stages = PartitionLayers("even", 3, 3);

    // float32: q 64x64, k and v 32x64, o 64x64, gate, up, down 96x64, two norms of 64
    const uint64_t layer = 4 * (64 * 64 * 2 + 32 * 64 * 2 + 96 * 64 * 3 + 2 * 64);
    const uint64_t embedding = 4 * 320 * 64;
    const uint64_t rope = 4 * 8;
    EXPECT_EQ(StageWeightBytes((*stages)[0], config, entries), layer + embedding + rope);
    EXPECT_EQ(StageWeightBytes((*stages)[1], config, entries), layer + rope);
    EXPECT_EQ(StageWeightBytes((*stages)[2], config, entries), layer + embedding + rope + 4 * 64);
    EXPECT_EQ(StageReads((*stages)[2], config, "token_embd.weight"), tied);
    EXPECT_TRUE(StageReads((*stages)[1], config, "blk.1.attn_q.weight"));
    EXPECT_FALSE(StageReads((*stages)[1], config, "blk.10.attn_q.weight"));
    const auto whole = PartitionLayers("even", 3, 1);
    EXPECT_EQ(StageWeightBytes((*whole)[0], config, entries),
              3 * layer + (tied ? 1 : 2) * embedding + rope + 4 * 64);
  }
}

}  // namespace
}  // namespace paceline
