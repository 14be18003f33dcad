// ModelProposer: drafts with a small language model of the same vocabulary (`draft_model`).
//
// Owned by the draft worker's shell, called from its compute thread. Each sequence has its own K/V rows in
// one paged pool; what is valid is a length, so rollback after a refusal is cutting it (drafts.md, "draft
// LM"). Sequences share a step: all items of a Propose call are drafted together, one forward a depth.
//
// greedy: the draft's argmax. probabilistic: the draft's own distribution through the request's whole logit
// pipeline, drawn with the target's noise for that position, so that it agrees with the target as often as
// Gumbel coupling gives.
//
// Limits: positions up to `positions_max`: beyond it a sequence gets no drafts and the target goes on alone.
// The pool holds `kv_blocks` blocks; a sequence that finds none free is drafted no further until others are
// released.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/config/speculative_config.h"
#include "common/decoder/kv_pool.h"
#include "common/decoder/sampler.h"
#include "common/decoder/stage_model.h"
#include "common/model/weight_source.h"
#include "draft_worker/proposer.h"
#include "kernels/common/thread_pool.h"

namespace paceline {

struct ModelProposerOptions {
  uint32_t target_vocab_size = 0;  // ids the target knows
  uint32_t positions_max = 0;      // context of target and draft, the smaller
  uint32_t rows_max = 512;         // rows of one forward: prompts go in chunks
  uint32_t kv_blocks = 0;
  uint32_t kv_block_size = 16;
  DType kv_dtype = DType::kF16;
  DraftSampling sampling = DraftSampling::kGreedy;
  uint32_t threads = 1;
};

class ModelProposer : public Proposer {
 public:
  // `source` outlives the proposer.
  static StatusOr<std::unique_ptr<ModelProposer>> Create(const WeightSource& source,
                                                         const ModelProposerOptions& options);

  void Admit(const Admission& admission) override;
  void Release(const SequenceKey& key) override;
  void Reset() override;
  std::vector<std::vector<TokenId>> Propose(std::span<const ProposeItem> items) override;

 private:
  struct Sequence {
    std::vector<TokenId> ids;  // committed, then the guess
    uint32_t kv_len = 0;       // ids whose K/V rows are valid
    std::vector<BlockId> blocks;
    std::optional<SequenceSampler> sampler;  // probabilistic; its history is the committed ids
  };
  // One item on its way through the depths.
  struct Active {
    Sequence* sequence = nullptr;
    uint32_t want = 0;  // ids still to draft
    std::vector<TokenId>* out = nullptr;
  };

  explicit ModelProposer(const ModelProposerOptions& options);

  Sequence& Edit(const ProposeItem& item);
  bool Cover(Sequence& sequence, uint32_t len);  // blocks for `len` ids; false when the pool is empty
  // Runs rows kv_len..ids.size() of all, in chunks; on return `logits_` holds the last row of each, in order.
  void RunToEnd(std::span<Active> active);
  void RunRows(std::span<const ForwardRow> rows, std::span<const std::span<const BlockId>> tables,
               std::span<const uint32_t> which, size_t logits_at);
  std::optional<TokenId> Draw(Sequence& sequence, std::span<const float> logits);

  ModelProposerOptions options_;
  kernels::ThreadPool pool_;
  std::unique_ptr<StageModel> model_;
  std::optional<KvPool> kv_;
  std::vector<BlockId> free_blocks_;
  absl::flat_hash_map<SequenceKey, std::unique_ptr<Sequence>> sequences_;
  SamplerScratch scratch_;
  std::vector<float> residual_;
  std::vector<float> logits_;
};

}  // namespace paceline
