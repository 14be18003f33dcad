// The theorem under "the same tokens, always": a row's logits are bit-equal however it came to be computed.
//
// Tiny random models of several weight types; every schedule is compared with one whole prefill on one
// thread.
#include "common/decoder/stage_model.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/local_generator.h"
#include "tests/support/local_model.h"
#include "tests/support/tiny_llama.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using testing::LocalModel;
using testing::LocalModelOptions;
using testing::OpenTinyLlama;
using testing::TinyLlamaOptions;

constexpr uint32_t kNumIds = 150;  // more than two chunks of attention

TinyLlamaOptions FourLayers(DType dtype) {
  TinyLlamaOptions options;
  options.num_layers = 4;
  options.vocab_size = 96;
  options.context_len = 256;
  options.dtype = dtype;
  return options;
}

std::vector<TokenId> Ids() {
  std::vector<TokenId> ids(kNumIds);
  for (uint32_t i = 0; i < kNumIds; ++i) ids[i] = static_cast<TokenId>((i * i * 31 + i * 7 + 3) % 96);
  return ids;
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class StageModelBits : public ::testing::TestWithParam<DType> {
 protected:
  StageModelBits() : source_(OpenTinyLlama(FourLayers(GetParam()))), ids_(Ids()) {
    whole_ = Logits({.rows_max = 256}, 256);
  }

  std::vector<float> Logits(const LocalModelOptions& options, uint32_t chunk) {
    return *(*LocalModel::Make(*source_, options))->Run(ids_, 0, {.chunk = chunk});
  }

  std::unique_ptr<WeightSource> source_;
  std::vector<TokenId> ids_;
  std::vector<float> whole_;  // [kNumIds, vocab]
};

TEST_P(StageModelBits, DoNotDependOnTheChunksOfAPrompt) {
  for (const uint32_t chunk : {1u, 2u, 3u, 7u, 8u, 9u, 63u, 64u, 65u, 128u}) {
    EXPECT_TRUE(SameBits(Logits({}, chunk), whole_)) << "chunk " << chunk;
  }
}

TEST_P(StageModelBits, DoNotDependOnTheNumberOfThreads) {
  for (const int threads : {2, 3, 5}) {
    EXPECT_TRUE(SameBits(Logits({.num_threads = threads}, 100), whole_)) << threads << " threads";
  }
}

TEST_P(StageModelBits, DoNotDependOnTheCutIntoStages) {
  for (const uint32_t stages : {2u, 3u, 4u}) {
    EXPECT_TRUE(SameBits(Logits({.num_stages = stages}, 33), whole_)) << stages << " stages";
  }
}

TEST_P(StageModelBits, DoNotDependOnBlockSizeOrPlacement) {
  for (const uint32_t block_size : {1u, 4u, 16u, 64u}) {
    for (const uint32_t seed : {0u, 1u, 2u}) {
      EXPECT_TRUE(SameBits(Logits({.block_size = block_size, .placement_seed = seed}, 50), whole_))
          << "block size " << block_size << " seed " << seed;
    }
  }
}

TEST_P(StageModelBits, OfAVerifyWindowAreThoseOfPlainDecodingAndARewindLeavesNoTrace) {
  const auto model = *LocalModel::Make(*source_, {});
  const std::vector<TokenId> ids = ids_;
  const uint32_t vocab = model->vocab_size();
  ASSERT_TRUE(model->Run(std::span(ids).first(70), 0, {}).ok());
  std::vector<TokenId> wrong(5, 1);  // drafts that are refused: the next plan's start is the rewind
  wrong[0] = ids[70];
  const std::vector<float> window = *model->Run(wrong, 70, {});
  EXPECT_TRUE(SameBits(std::span(window).first(vocab), std::span(whole_).subspan(70 * vocab, vocab)));

  const std::vector<float> next = *model->Run(std::span(ids).subspan(71, 5), 71, {});
  EXPECT_TRUE(SameBits(next, std::span(whole_).subspan(71 * vocab, 5 * vocab)));
}

// Three sequences share each step; the middle one dies half way.
TEST_P(StageModelBits, DoNotDependOnNeighboursNorOnTheirDeath) {
  kernels::ThreadPool pool(2);
  auto model =
      *StageModel::Load(*source_, {.layers = {0, 4, true, true}, .rows_max = 64, .positions_max = 256}, pool);
  KvPool kv = *KvPool::Create(model->KvShape(40, 8, DType::kF16));
  const std::vector<BlockId> tables[3] = {{BlockId(9), BlockId(2), BlockId(30)},
                                          {BlockId(1), BlockId(0), BlockId(3)},
                                          {BlockId(39), BlockId(20), BlockId(21)}};
  const std::span<const BlockId> table_spans[3] = {tables[0], tables[1], tables[2]};
  std::vector<ForwardRow> rows;
  for (uint32_t position = 0; position < 20; ++position) {
    for (uint32_t sequence = 0; sequence < 3; ++sequence) {
      rows.push_back({.id = ids_[position],
                      .position = position,
                      .sequence_index = sequence,
                      .slot = position,
                      .prefix_len = position + 1,
                      .residual_row = static_cast<uint32_t>(rows.size())});
    }
  }
  std::vector<float> residual(rows.size() * model->hidden_size(), 9.0f);
  const ForwardBatch batch = {.rows = rows, .block_tables = table_spans, .residual_rows = 60};
  int asked = 0;
  const auto result = model->Forward(batch, kv, nullptr, residual.data(), [&](uint32_t sequence) {
    return sequence == 1 && ++asked > 2;  // alive for two layers
  });
  ASSERT_EQ(*result, ForwardResult::kComplete);

  const uint32_t vocab = model->vocab_size();
  std::vector<float> logits(vocab);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].sequence_index == 1) {
      EXPECT_EQ(residual[i * model->hidden_size()], 0.0f);
      continue;
    }
    model->Logits(residual.data(), {&i, 1}, logits.data());
    EXPECT_TRUE(SameBits(logits, std::span(whole_).subspan(rows[i].position * vocab, vocab))) << "row " << i;
  }
}

// Two branches behind position 9: slots 10.. hold the losing one, slots 20.. the winner, which is then moved.
TEST_P(StageModelBits, OfATreesBranchAreThoseOfTheChainAlsoAfterTheMove) {
  kernels::ThreadPool pool(1);
  auto model =
      *StageModel::Load(*source_, {.layers = {0, 4, true, true}, .rows_max = 64, .positions_max = 256}, pool);
  KvPool kv = *KvPool::Create(model->KvShape(8, 4, DType::kF16));
  const std::vector<BlockId> table = {BlockId(7), BlockId(0), BlockId(5), BlockId(2), BlockId(3), BlockId(6)};
  const std::span<const BlockId> tables[1] = {table};
  const auto run = [&](const std::vector<ForwardRow>& rows) {
    std::vector<float> residual(rows.size() * model->hidden_size());
    const ForwardBatch batch = {
        .rows = rows, .block_tables = tables, .residual_rows = static_cast<uint32_t>(rows.size())};
    EXPECT_EQ(*model->Forward(batch, kv, nullptr, residual.data(), [](uint32_t) { return false; }),
              ForwardResult::kComplete);
    std::vector<uint32_t> which(rows.size());
    std::iota(which.begin(), which.end(), 0u);
    std::vector<float> logits(rows.size() * model->vocab_size());
    model->Logits(residual.data(), which, logits.data());
    return logits;
  };
  const auto chain_row = [&](uint32_t position, uint32_t index) {
    return ForwardRow{.id = ids_[position],
                      .position = position,
                      .slot = position,
                      .prefix_len = position + 1,
                      .residual_row = index};
  };
  std::vector<ForwardRow> prompt;
  for (uint32_t position = 0; position < 10; ++position) prompt.push_back(chain_row(position, position));
  run(prompt);

  const Slot winner_slots[] = {20, 21}, loser_slots[] = {10, 11};
  std::vector<ForwardRow> tree;
  for (uint32_t depth = 0; depth < 2; ++depth) {
    const std::span<const Slot> winner(winner_slots, depth + 1), loser(loser_slots, depth + 1);
    tree.push_back({1, 10 + depth, 0, loser_slots[depth], 10, loser, 2 * depth});
    tree.push_back({ids_[10 + depth], 10 + depth, 0, winner_slots[depth], 10, winner, 2 * depth + 1});
  }
  const std::vector<float> branches = run(tree);
  const uint32_t vocab = model->vocab_size();
  for (const uint32_t depth : {0u, 1u}) {
    EXPECT_TRUE(SameBits(std::span(branches).subspan((2 * depth + 1) * vocab, vocab),
                         std::span(whole_).subspan((10 + depth) * vocab, vocab)));
  }

  const std::vector<KvMove> moves = {{.from = 20, .to = 10}, {.from = 21, .to = 11}};
  ASSERT_TRUE(kv.MoveRows(table, moves).ok());
  EXPECT_TRUE(SameBits(run({chain_row(12, 0)}), std::span(whole_).subspan(12 * vocab, vocab)));
}

INSTANTIATE_TEST_SUITE_P(WeightTypes, StageModelBits,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_1),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST(StageModel, B071_ATiedHeadOnTheLastStageReadsTheEmbeddingItself) {
  TinyLlamaOptions options = FourLayers(DType::kQ4_1);
  options.tied = true;
  ASSERT_FALSE(OpenTinyLlama(options)->Has("output.weight"));
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = 24;
  testing::Generated want;
  for (const uint32_t stages : {1u, 2u, 4u}) {
    auto generator = *testing::LocalGenerator::Make(OpenTinyLlama(options), {.num_stages = stages});
    const testing::Generated got = *generator->Generate(std::vector<TokenId>{5, 6, 7}, params);
    if (stages == 1) want = got;
    EXPECT_EQ(got, want) << stages << " stages";
  }
}

TEST(StageModel, EveryRowDeadIsSaidAndComputesNothing) {
  const auto source = OpenTinyLlama(FourLayers(DType::kF32));
  kernels::ThreadPool pool(1);
  auto model =
      *StageModel::Load(*source, {.layers = {0, 2, true, false}, .rows_max = 4, .positions_max = 16}, pool);
  KvPool kv = *KvPool::Create(model->KvShape(2, 4, DType::kF32));
  const std::vector<BlockId> table = {BlockId(0)};
  const std::span<const BlockId> tables[1] = {table};
  const ForwardRow row = {.id = 1, .prefix_len = 1};
  std::vector<float> residual(model->hidden_size(), 3.0f);

  const auto result = model->Forward({.rows = {&row, 1}, .block_tables = tables, .residual_rows = 1}, kv,
                                     nullptr, residual.data(), [](uint32_t) { return true; });
  EXPECT_EQ(*result, ForwardResult::kAllDead);
  EXPECT_EQ(residual, std::vector<float>(model->hidden_size(), 0.0f));
}

TEST(StageModel, AnEmptyBatchIsComplete) {
  const auto source = OpenTinyLlama(FourLayers(DType::kF32));
  kernels::ThreadPool pool(1);
  auto model =
      *StageModel::Load(*source, {.layers = {0, 4, true, true}, .rows_max = 4, .positions_max = 16}, pool);
  KvPool kv = *KvPool::Create(model->KvShape(2, 4, DType::kF32));
  EXPECT_EQ(*model->Forward({}, kv, nullptr, nullptr, [](uint32_t) { return false; }),
            ForwardResult::kComplete);
  model->Logits(nullptr, {}, nullptr);
}

TEST(StageModel, B176_NanInOneSequenceStaysInItsRows) {
  const auto source = OpenTinyLlama(FourLayers(DType::kF32));
  kernels::ThreadPool pool(1);
  auto model =
      *StageModel::Load(*source, {.layers = {2, 4, false, true}, .rows_max = 4, .positions_max = 16}, pool);
  KvPool kv = *KvPool::Create(model->KvShape(2, 4, DType::kF16));
  const std::vector<BlockId> table_a = {BlockId(0)}, table_b = {BlockId(1)};
  const std::span<const BlockId> tables[2] = {table_a, table_b};
  const ForwardRow rows[] = {{.sequence_index = 0, .prefix_len = 1, .residual_row = 0},
                             {.sequence_index = 1, .prefix_len = 1, .residual_row = 1}};
  std::vector<float> residual(2 * model->hidden_size(), 0.5f);
  residual[3] = std::numeric_limits<float>::quiet_NaN();

  ASSERT_TRUE(model
                  ->Forward({.rows = rows, .block_tables = tables, .residual_rows = 2}, kv, residual.data(),
                            residual.data(), [](uint32_t) { return false; })
                  .ok());
  const uint32_t which[] = {0, 1};
  std::vector<float> logits(2 * model->vocab_size());
  model->Logits(residual.data(), which, logits.data());
  for (uint32_t id = 0; id < model->vocab_size(); ++id) {
    EXPECT_TRUE(std::isnan(logits[id])) << "id " << id;
    EXPECT_TRUE(std::isfinite(logits[model->vocab_size() + id])) << "id " << id;
  }
}

TEST(StageModel, BatchesOutOfBoundsAreRefusedByRowAndField) {
  const auto source = OpenTinyLlama(FourLayers(DType::kF32));
  kernels::ThreadPool pool(1);
  auto model =
      *StageModel::Load(*source, {.layers = {0, 1, true, false}, .rows_max = 2, .positions_max = 16}, pool);
  KvPool kv = *KvPool::Create(model->KvShape(2, 4, DType::kF32));
  const std::vector<BlockId> table = {BlockId(1)};
  std::vector<float> residual(3 * model->hidden_size());
  const auto error = [&](std::vector<ForwardRow> rows, const std::vector<BlockId>& blocks) {
    const std::span<const BlockId> tables[1] = {blocks};
    return std::string(Message(model
                                   ->Forward({.rows = rows, .block_tables = tables, .residual_rows = 3}, kv,
                                             nullptr, residual.data(), [](uint32_t) { return false; })
                                   .status()));
  };
  const ForwardRow good = {.id = 1, .prefix_len = 1};
  EXPECT_EQ(error({good}, table), "");
  const auto with = [&](auto change) {
    ForwardRow row = good;
    change(row);
    return error({row}, table);
  };
  const Slot far_tail[] = {0, 4};
  EXPECT_THAT(error({good, good, good}, table), HasSubstr("at most 2 rows, found 3"));
  EXPECT_THAT(error({good}, {BlockId(2)}), HasSubstr("blocks below 2, found 2"));
  EXPECT_THAT(with([](ForwardRow& r) { r.id = 96; }), HasSubstr("id in [0, 96), found 96"));
  EXPECT_THAT(with([](ForwardRow& r) { r.id = -1; }), HasSubstr("found -1"));
  EXPECT_THAT(with([](ForwardRow& r) { r.sequence_index = 1; }), HasSubstr("sequence below 1"));
  EXPECT_THAT(with([](ForwardRow& r) { r.residual_row = 3; }), HasSubstr("residual row below 3"));
  EXPECT_THAT(with([](ForwardRow& r) { r.prefix_len = 0; }), HasSubstr("path of 1 entries"));
  EXPECT_THAT(with([](ForwardRow& r) { r.slot = 1; }), HasSubstr("ends in slot 1"));
  EXPECT_THAT(with([](ForwardRow& r) { r.position = r.slot = 16, r.prefix_len = 17; }),
              HasSubstr("below 16"));
  EXPECT_THAT(with([](ForwardRow& r) { r.position = r.slot = 5, r.prefix_len = 6; }),
              HasSubstr("within 4 slots"));
  EXPECT_THAT(with([&](ForwardRow& r) { r = {1, 1, 0, 4, 0, far_tail, 0}; }), HasSubstr("slots below 4"));
}

TEST(StageModel, LayersOutsideTheModelAreRefused) {
  const auto source = OpenTinyLlama(FourLayers(DType::kF32));
  kernels::ThreadPool pool(1);
  const auto made =
      StageModel::Load(*source, {.layers = {3, 5, false, true}, .rows_max = 1, .positions_max = 1}, pool);
  EXPECT_THAT(std::string(Message(made.status())), HasSubstr("within [0, 4), found [3, 5)"));
}

// Passes everything on and remembers which tensors were asked for.
class RecordingSource : public WeightSource {
 public:
  explicit RecordingSource(std::unique_ptr<WeightSource> source) : source_(std::move(source)) {}
  const ModelConfig& config() const override { return source_->config(); }
  StatusOr<WeightView> Get(std::string_view name) const override {
    asked_.insert(std::string(name));
    return source_->Get(name);
  }
  bool Has(std::string_view name) const override { return source_->Has(name); }
  std::vector<TensorEntry> Entries() const override { return source_->Entries(); }
  std::string Digest() const override { return source_->Digest(); }
  const std::set<std::string>& asked() const { return asked_; }

 private:
  std::unique_ptr<WeightSource> source_;
  mutable std::set<std::string> asked_;
};

TEST(StageModel, AStageReadsOnlyItsOwnTensors) {
  kernels::ThreadPool pool(1);
  const std::vector<StageLayers> stages = *PartitionLayers("1,2,1", 4, 3);
  for (const StageLayers& stage : stages) {
    const RecordingSource source(OpenTinyLlama(FourLayers(DType::kF32)));
    ASSERT_TRUE(StageModel::Load(source, {.layers = stage, .rows_max = 1, .positions_max = 1}, pool).ok());

    std::set<std::string> want;
    for (const TensorEntry& entry : source.Entries()) {
      if (StageReads(stage, source.config(), entry.name)) want.insert(entry.name);
    }
    EXPECT_EQ(source.asked(), want) << "stage of layers " << stage.first << " to " << stage.end;
  }
}

}  // namespace
}  // namespace paceline
