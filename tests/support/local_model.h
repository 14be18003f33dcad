// LocalModel: a whole model in this process, one sequence, cut into any number of stages: what tests compare
// with.
//
// The stages run one after another on the caller's thread; nothing but float32 rows passes between them. The
// WeightSource must outlive it.
//
//   auto model = *LocalModel::Make(*source, {.num_stages = 2});
//   std::vector<float> logits = *model->Run(ids, /*start=*/0, {.chunk = 7});   // [ids, vocab]
//   model->Run(more, ids.size(), {});                                          // goes on; a smaller start
//   rewinds
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/decoder/kv_pool.h"
#include "common/decoder/stage_model.h"
#include "common/model/weight_source.h"
#include "common/protocol/types.h"
#include "kernels/common/thread_pool.h"
#include "tests/support/tiny_llama.h"

namespace paceline::testing {

// The random model of tiny_llama.h, opened from a GGUF file that is already unlinked. Dies when it cannot.
std::unique_ptr<WeightSource> OpenTinyLlama(const TinyLlamaOptions& options);

struct LocalModelOptions {
  uint32_t num_stages = 1;
  int num_threads = 1;
  uint32_t rows_max = 128;
  uint32_t positions_max = 0;  // 0 = the model's context
  uint32_t block_size = 16;
  DType kv_dtype = DType::kF16;
  uint32_t placement_seed = 0;  // 0 = blocks in order, else a shuffle of a larger pool
};

struct RunOptions {
  uint32_t chunk = 128;    // rows of a step, at most rows_max
  bool last_only = false;  // logits of the last id alone: [1, vocab]
};

class LocalModel {
 public:
  static StatusOr<std::unique_ptr<LocalModel>> Make(const WeightSource& source,
                                                    const LocalModelOptions& options);

  // Runs `ids` at positions start, start + 1, ...; what the cache holds below start is their prefix.
  StatusOr<std::vector<float>> Run(std::span<const TokenId> ids, Position start, const RunOptions& options);

  uint32_t vocab_size() const { return stages_.back()->vocab_size(); }
  uint32_t positions_max() const { return stages_.back()->positions_max(); }

 private:
  LocalModel(int num_threads) : pool_(num_threads) {}
  Status MakeStages(const WeightSource& source, const LocalModelOptions& options);
  void PlaceBlocks(uint32_t count, uint32_t seed);
  Status RunStep(std::span<const TokenId> ids, Position start);

  kernels::ThreadPool pool_;
  std::vector<std::unique_ptr<StageModel>> stages_;
  std::vector<KvPool> kv_;
  std::vector<BlockId> table_;
  std::vector<ForwardRow> rows_;
  std::vector<float> residual_;  // [rows of the step, hidden]
};

}  // namespace paceline::testing
