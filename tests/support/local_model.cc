#include "tests/support/local_model.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "common/model/partition.h"

namespace paceline::testing {

std::unique_ptr<WeightSource> OpenTinyLlama(const TinyLlamaOptions& options) {
  char path[] = "/tmp/tiny-llama-XXXXXX.gguf";
  const int fd = mkstemps(path, 5);
  CHECK_GE(fd, 0) << "no temporary file in /tmp";
  close(fd);
  WriteFile(path, TinyLlamaGguf(options).Build());
  StatusOr<std::unique_ptr<WeightSource>> source = OpenModel(path);
  unlink(path);
  CHECK_OK(source.status());
  return std::move(source).value();
}

StatusOr<std::unique_ptr<LocalModel>> LocalModel::Make(const WeightSource& source,
                                                       const LocalModelOptions& options) {
  std::unique_ptr<LocalModel> model(new LocalModel(options.num_threads));
  RETURN_IF_ERROR(model->MakeStages(source, options));
  return model;
}

Status LocalModel::MakeStages(const WeightSource& source, const LocalModelOptions& options) {
  const uint32_t positions_max =
      options.positions_max > 0 ? options.positions_max : source.config().context_len;
  const uint32_t table_len = (positions_max + options.block_size - 1) / options.block_size;
  const uint32_t num_blocks = options.placement_seed == 0 ? table_len : 2 * table_len + 3;
  PlaceBlocks(num_blocks, options.placement_seed);
  table_.resize(table_len);

  ASSIGN_OR_RETURN(const std::vector<StageLayers> partition,
                   PartitionLayers("even", source.config().num_layers, options.num_stages));
  for (const StageLayers& layers : partition) {
    ASSIGN_OR_RETURN(
        auto stage,
        StageModel::Load(
            source, {.layers = layers, .rows_max = options.rows_max, .positions_max = positions_max}, pool_));
    ASSIGN_OR_RETURN(KvPool kv,
                     KvPool::Create(stage->KvShape(num_blocks, options.block_size, options.kv_dtype)));
    stages_.push_back(std::move(stage));
    kv_.push_back(std::move(kv));
  }
  residual_.resize(size_t{options.rows_max} * stages_[0]->hidden_size());
  return OkStatus();
}

void LocalModel::PlaceBlocks(uint32_t count, uint32_t seed) {
  for (uint32_t block = 0; block < count; ++block) table_.push_back(BlockId(block));
  if (seed != 0) std::shuffle(table_.begin(), table_.end(), std::mt19937(seed));
}

StatusOr<std::vector<float>> LocalModel::Run(std::span<const TokenId> ids, Position start,
                                             const RunOptions& options) {
  const size_t vocab = vocab_size();
  std::vector<float> logits((options.last_only ? 1 : ids.size()) * vocab);
  std::vector<uint32_t> which;
  for (size_t begin = 0; begin < ids.size(); begin += options.chunk) {
    const size_t count = std::min<size_t>(options.chunk, ids.size() - begin);
    RETURN_IF_ERROR(RunStep(ids.subspan(begin, count), static_cast<Position>(start + begin)));
    const bool last_step = begin + count == ids.size();
    if (options.last_only && !last_step) continue;
    which.resize(options.last_only ? 1 : count);
    std::iota(which.begin(), which.end(), static_cast<uint32_t>(options.last_only ? count - 1 : 0));
    stages_.back()->Logits(residual_.data(), which, logits.data() + (options.last_only ? 0 : begin * vocab));
  }
  return logits;
}

Status LocalModel::RunStep(std::span<const TokenId> ids, Position start) {
  rows_.clear();
  for (uint32_t i = 0; i < ids.size(); ++i) {
    rows_.push_back({.id = ids[i],
                     .position = start + i,
                     .slot = start + i,
                     .prefix_len = start + i + 1,
                     .residual_row = i});
  }
  const std::span<const BlockId> tables[] = {table_};
  const ForwardBatch batch = {
      .rows = rows_, .block_tables = tables, .residual_rows = static_cast<uint32_t>(ids.size())};
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    RETURN_IF_ERROR(
        stages_[stage]
            ->Forward(batch, kv_[stage], residual_.data(), residual_.data(), [](uint32_t) { return false; })
            .status());
  }
  return OkStatus();
}

}  // namespace paceline::testing
