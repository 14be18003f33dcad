// CpuExecutor: StageExecutor over the CPU kernels: K/V moves, the stage's layers, and on the last stage the
// draws.
//
// Owned by the stage's shell; made on its start, used by its compute thread alone. The weight source outlives
// it.
//
//   ASSIGN_OR_RETURN(auto executor, CpuExecutor::Create(*source, {.layers = stage, .kv_blocks = 4096, ...},
//   store, dead)); ASSIGN_OR_RETURN(ExecutionResult result, executor->Run(work));
//
// Failure: a StageWork that contradicts the model (an id outside the vocabulary, a block outside the pool) is
// InvalidArgument and computes nothing; NaN logits end only their sequence (RowFailure).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/decoder/kv_pool.h"
#include "common/decoder/sampler.h"
#include "common/decoder/stage_model.h"
#include "common/model/partition.h"
#include "common/model/weight_source.h"
#include "kernels/common/thread_pool.h"
#include "stage_worker/core/executor.h"
#include "stage_worker/dead_rows.h"
#include "stage_worker/payload_store.h"

namespace paceline {

struct CpuExecutorOptions {
  StageLayers layers;
  uint32_t rows_max = 512;     // rows of the largest frame
  uint32_t positions_max = 0;  // context served, tokens
  uint32_t kv_blocks = 0;      // size of the pool; a generation may use fewer
  uint32_t kv_block_size = 16;
  DType kv_dtype = DType::kF16;
  uint32_t num_token_ids = 0;  // ids that the tokenizer knows; logits beyond are never drawn. 0 = all
  uint32_t threads = 1;
};

class CpuExecutor : public StageExecutor {
 public:
  static StatusOr<std::unique_ptr<CpuExecutor>> Create(const WeightSource& source,
                                                       const CpuExecutorOptions& options,
                                                       PayloadStore& payloads, DeadRows& dead);

  void Admit(const Admission& admission) override;
  void Forget(const SequenceKey& key) override;
  Status Reset(uint32_t kv_blocks, uint32_t kv_block_size) override;
  StatusOr<ExecutionResult> Run(const StageWork& work) override;

 private:
  // One judged row: its row of the residual, and where its sequence's result goes.
  struct Judged {
    const WorkSequence* sequence = nullptr;
    uint32_t logit_row = 0;  // of the sequence's first judged row, in this batch of logits
  };

  CpuExecutor(const CpuExecutorOptions& options, PayloadStore& payloads, DeadRows& dead);

  void BuildBatch(const StageWork& work);
  StatusOr<const float*> Input(const StageWork& work, std::shared_ptr<const AlignedBuffer>& holder) const;
  // Last stage: logits and draws of every sequence that judges, some sequences at a time.
  void Judge(const StageWork& work, const float* residual, ExecutionResult& result);
  void JudgeSequence(const StageWork& work, const WorkSequence& sequence, const float* logits,
                     ExecutionResult& result);

  CpuExecutorOptions options_;
  PayloadStore& payloads_;
  DeadRows& dead_;
  kernels::ThreadPool pool_;
  std::unique_ptr<StageModel> model_;
  std::optional<KvPool> kv_;
  absl::flat_hash_map<SequenceKey, SequenceSampler> samplers_;
  absl::flat_hash_map<SequenceKey, Status> refused_;  // admissions that no sampler could be made of
  SamplerScratch scratch_;

  // The step in progress.
  std::vector<ForwardRow> rows_;
  std::vector<std::span<const BlockId>> tables_;
  std::vector<uint8_t> died_;  // by sequence of the work
  std::vector<float> residual_;
  std::vector<float> logits_;
  std::vector<uint32_t> which_;
};

}  // namespace paceline
