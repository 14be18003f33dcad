// StageModel: the layers of one pipeline stage as a model graph, from residual to residual and to logits.
//
// Owner: a worker's executor (a draft worker has one that holds its whole model); one thread at a time, which
// lends `pool` to the kernels. Lifetime: the weights stay in the mapped file, so the WeightSource must
// outlive the model.
//
// Promises: a row's residual and logits are a function of the row's id, position and path contents alone; not
// of the other rows, their order, the chunking, the blocks, the threads, or where the model was cut into
// stages (the residual crosses in float32). No allocation in Forward and Logits after the first steps of a
// size.
//
//   ASSIGN_OR_RETURN(auto model, StageModel::Load(*source, {.layers = layers, .rows_max = 512, .positions_max
//   = 8192}, pool)); ASSIGN_OR_RETURN(KvPool kv, KvPool::Create(model->KvShape(num_blocks, 16,
//   DType::kF16))); ASSIGN_OR_RETURN(auto result, model->Forward(batch, kv, input, output, is_dead)); if
//   (model->has_head()) model->Logits(output, rows_that_draw, logits);
//
// Failure: a batch from outside that breaks a bound is InvalidArgument and computes nothing. NaN is not
// looked for here; it reaches the row's logits, where the sampler ends that request alone (B176).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/status.h"
#include "common/decoder/decoder_block.h"
#include "common/decoder/forward_batch.h"
#include "common/decoder/kv_pool.h"
#include "common/decoder/layer_weights.h"
#include "common/model/partition.h"
#include "common/model/weight_source.h"

namespace paceline {

struct StageModelOptions {
  StageLayers layers;
  uint32_t rows_max = 512;     // rows of the largest step
  uint32_t positions_max = 0;  // positions that rope is prepared for: the context served
};

enum class ForwardResult {
  kComplete,  // every row that is not dead has its residual
  kAllDead,   // nothing is left to compute; all its rows are zero
};

class StageModel {
 public:
  static StatusOr<std::unique_ptr<StageModel>> Load(const WeightSource& source,
                                                    const StageModelOptions& options,
                                                    kernels::ThreadPool& pool);

  // `input`, `output` [batch.residual_rows, hidden] f32, may be the same memory: the previous stage's rows
  // (ignored by the stage with the embedding, may be null there) and this stage's. Rows of `output` that no
  // row of the batch names stay as they are. `is_dead(sequence_index)` is asked before each layer for every
  // sequence still alive; the rows of a dead one are not computed any further and leave as zeros, and their
  // K/V is unspecified.
  StatusOr<ForwardResult> Forward(const ForwardBatch& batch, KvPool& kv, const float* input, float* output,
                                  absl::FunctionRef<bool(uint32_t)> is_dead);

  // Final norm and head of rows `which` of residual [.., hidden]; logits [which.size(), vocab] f32. Only on
  // the stage that has the head (CHECK).
  void Logits(const float* residual, std::span<const uint32_t> which, float* logits);

  // The pool this model wants, of `num_blocks` blocks.
  KvPoolShape KvShape(uint32_t num_blocks, uint32_t block_size, DType dtype) const;

  bool has_embedding() const { return embedding_.has_value(); }
  bool has_head() const { return head_.has_value(); }
  uint32_t num_layers() const { return static_cast<uint32_t>(layers_.size()); }
  uint32_t hidden_size() const { return shape_.hidden; }
  uint32_t vocab_size() const { return vocab_size_; }
  uint32_t rows_max() const { return rows_max_; }
  uint32_t positions_max() const { return positions_max_; }

 private:
  // Final norm and the output matrix; a tied head is the embedding's matrix, which the last stage reads
  // itself (B071).
  struct Head {
    std::vector<float> norm;
    kernels::WeightMatrix matrix;
  };

  StageModel(const ModelConfig& config, const StageModelOptions& options, kernels::RopeTable rope,
             kernels::ThreadPool& pool);
  Status LoadWeights(const WeightSource& source, const StageLayers& layers);
  // The batch as the kernels take it: block tables copied flat, every row active.
  void Activate(const ForwardBatch& batch);
  void FillResidual(const ForwardBatch& batch, const float* input);
  // Takes the rows of sequences that died since the last call out of `active_` and of the residual.
  void DropDead(const ForwardBatch& batch, absl::FunctionRef<bool(uint32_t)> is_dead);
  void StoreResidual(const ForwardBatch& batch, float* output) const;

  BlockShape shape_;
  uint32_t vocab_size_;
  uint32_t rows_max_;
  uint32_t positions_max_;
  kernels::RopeTable rope_;
  kernels::ThreadPool& pool_;
  std::optional<kernels::WeightMatrix> embedding_;
  std::vector<LayerWeights> layers_;
  std::optional<Head> head_;

  // The step in progress.
  StepBuffers buffers_;
  ActiveRows active_;
  std::vector<uint32_t> tables_;         // block tables, one after another
  std::vector<size_t> table_begin_;      // by sequence, into tables_
  std::vector<uint8_t> sequence_dead_;   // by sequence
  std::vector<uint32_t> embedding_ids_;  // by row
};

}  // namespace paceline
