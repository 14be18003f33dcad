#include "common/decoder/stage_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "kernels/embedding/embedding.h"
#include "kernels/rmsnorm/rmsnorm.h"

namespace paceline {
namespace {

// Inverse frequencies with the file's own divisors, where it has some (GGUF files of Llama 3.1 and later
// carry their scaling so).
StatusOr<std::vector<double>> InverseFrequencies(const WeightSource& source) {
  std::vector<double> inv_freq = RopeInverseFrequencies(source.config());
  constexpr std::string_view kDivisors = "rope_freqs.weight";
  if (!source.Has(kDivisors)) return inv_freq;
  ASSIGN_OR_RETURN(const std::vector<float> divisors, LoadVector(source, kDivisors, inv_freq.size()));
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    if (!(divisors[i] > 0)) {
      return InvalidArgumentError("tensor {}: want positive divisors, found {} at {}", kDivisors, divisors[i],
                                  i);
    }
    inv_freq[i] /= divisors[i];
  }
  return inv_freq;
}

}  // namespace

StatusOr<std::unique_ptr<StageModel>> StageModel::Load(const WeightSource& source,
                                                       const StageModelOptions& options,
                                                       kernels::ThreadPool& pool) {
  if (options.rows_max == 0 || options.positions_max == 0) {
    return InvalidArgumentError("stage: want at least one row and one position, found {} and {}",
                                options.rows_max, options.positions_max);
  }
  ASSIGN_OR_RETURN(const std::vector<double> inv_freq, InverseFrequencies(source));
  kernels::RopeTable rope(inv_freq);
  rope.Prepare(options.positions_max);
  std::unique_ptr<StageModel> model(new StageModel(source.config(), options, std::move(rope), pool));
  RETURN_IF_ERROR(model->LoadWeights(source, options.layers));
  return model;
}

StageModel::StageModel(const ModelConfig& config, const StageModelOptions& options, kernels::RopeTable rope,
                       kernels::ThreadPool& pool)
    : shape_(MakeBlockShape(config)),
      vocab_size_(config.vocab_size),
      rows_max_(options.rows_max),
      positions_max_(options.positions_max),
      rope_(std::move(rope)),
      pool_(pool),
      buffers_(shape_, options.rows_max, pool.num_threads()) {
  active_.Reserve(rows_max_);
  embedding_ids_.reserve(rows_max_);
}

Status StageModel::LoadWeights(const WeightSource& source, const StageLayers& layers) {
  const ModelConfig& config = source.config();
  if (layers.first > layers.end || layers.end > config.num_layers) {
    return InvalidArgumentError("stage: want layers within [0, {}), found [{}, {})", config.num_layers,
                                layers.first, layers.end);
  }
  if (layers.has_embedding) {
    ASSIGN_OR_RETURN(embedding_, LoadMatrix(source, "token_embd.weight", vocab_size_, shape_.hidden));
  }
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    ASSIGN_OR_RETURN(LayerWeights weights, LoadLayer(source, layer));
    layers_.push_back(std::move(weights));
  }
  if (layers.has_head) {
    const char* name = config.tie_word_embeddings ? "token_embd.weight" : "output.weight";
    Head head;
    ASSIGN_OR_RETURN(head.matrix, LoadMatrix(source, name, vocab_size_, shape_.hidden));
    ASSIGN_OR_RETURN(head.norm, LoadVector(source, "output_norm.weight", shape_.hidden));
    head_ = std::move(head);
  }
  return OkStatus();
}

KvPoolShape StageModel::KvShape(uint32_t num_blocks, uint32_t block_size, DType dtype) const {
  return {.num_layers = num_layers(),
          .num_blocks = num_blocks,
          .block_size = block_size,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .dtype = dtype};
}

StatusOr<ForwardResult> StageModel::Forward(const ForwardBatch& batch, KvPool& kv, const float* input,
                                            float* output, absl::FunctionRef<bool(uint32_t)> is_dead) {
  const KvPoolShape& pool = kv.shape();
  CHECK(pool == KvShape(pool.num_blocks, pool.block_size, pool.dtype)) << "the KV pool is another model's";
  RETURN_IF_ERROR(CheckBatch(batch, {.rows_max = rows_max_,
                                     .vocab_size = vocab_size_,
                                     .positions_max = positions_max_,
                                     .num_blocks = pool.num_blocks,
                                     .block_size = pool.block_size}));
  Activate(batch);
  FillResidual(batch, input);
  for (uint32_t layer = 0; layer < num_layers(); ++layer) {
    DropDead(batch, is_dead);
    if (active_.size() == 0) break;
    RunBlock(layers_[layer], shape_, rope_, active_, kv.Layer(layer), buffers_, pool_);
  }
  StoreResidual(batch, output);
  return active_.size() == 0 && !batch.rows.empty() ? ForwardResult::kAllDead : ForwardResult::kComplete;
}

void StageModel::Activate(const ForwardBatch& batch) {
  tables_.clear();
  table_begin_.clear();
  for (const std::span<const BlockId> table : batch.block_tables) {
    table_begin_.push_back(tables_.size());
    for (const BlockId block : table) tables_.push_back(block.value());
  }
  sequence_dead_.assign(batch.block_tables.size(), 0);
  active_.Clear();
  for (uint32_t i = 0; i < batch.rows.size(); ++i) {
    const ForwardRow& row = batch.rows[i];
    const uint32_t* blocks = tables_.data() + table_begin_[row.sequence_index];
    active_.batch_index.push_back(i);
    active_.positions.push_back(row.position);
    active_.writes.push_back({.blocks = blocks, .slot = row.slot});
    active_.paths.push_back({.blocks = blocks, .prefix_len = row.prefix_len, .tail_slots = row.tail_slots});
  }
}

void StageModel::FillResidual(const ForwardBatch& batch, const float* input) {
  if (!has_embedding()) {
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      std::memcpy(&buffers_.residual[i * shape_.hidden],
                  input + size_t{batch.rows[i].residual_row} * shape_.hidden, shape_.hidden * sizeof(float));
    }
    return;
  }
  embedding_ids_.clear();
  for (const ForwardRow& row : batch.rows) embedding_ids_.push_back(static_cast<uint32_t>(row.id));
  kernels::EmbeddingGather(*embedding_, embedding_ids_, buffers_.residual.data(), shape_.hidden);
}

void StageModel::DropDead(const ForwardBatch& batch, absl::FunctionRef<bool(uint32_t)> is_dead) {
  bool someone_died = false;
  for (uint32_t sequence = 0; sequence < sequence_dead_.size(); ++sequence) {
    if (sequence_dead_[sequence] || !is_dead(sequence)) continue;
    sequence_dead_[sequence] = 1;
    someone_died = true;
  }
  if (!someone_died) return;
  size_t kept = 0;
  for (size_t row = 0; row < active_.size(); ++row) {
    if (sequence_dead_[batch.rows[active_.batch_index[row]].sequence_index]) continue;
    if (kept != row) {
      active_.Move(row, kept);
      std::memcpy(&buffers_.residual[kept * shape_.hidden], &buffers_.residual[row * shape_.hidden],
                  shape_.hidden * sizeof(float));
    }
    ++kept;
  }
  active_.Truncate(kept);
}

void StageModel::StoreResidual(const ForwardBatch& batch, float* output) const {
  const auto row_of = [&](size_t index) {
    return output + size_t{batch.rows[index].residual_row} * shape_.hidden;
  };
  if (active_.size() < batch.rows.size()) {
    for (size_t i = 0; i < batch.rows.size(); ++i) std::fill_n(row_of(i), shape_.hidden, 0.0f);
  }
  for (size_t row = 0; row < active_.size(); ++row) {
    std::memcpy(row_of(active_.batch_index[row]), &buffers_.residual[row * shape_.hidden],
                shape_.hidden * sizeof(float));
  }
}

void StageModel::Logits(const float* residual, std::span<const uint32_t> which, float* logits) {
  CHECK(has_head()) << "logits of a stage without the head";
  for (size_t begin = 0; begin < which.size(); begin += rows_max_) {
    const size_t count = std::min<size_t>(rows_max_, which.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      kernels::RmsNorm({.x = residual + size_t{which[begin + i]} * shape_.hidden,
                        .x_stride = shape_.hidden,
                        .num_rows = 1,
                        .n = shape_.hidden,
                        .weight = head_->norm.data(),
                        .eps = shape_.norm_eps,
                        .y = &buffers_.normed[i * shape_.hidden],
                        .y_stride = shape_.hidden});
    }
    // Activations in plain int8: here, at the end, that is near enough (linear.h), and the head is a decode
    // step's largest matrix.
    kernels::Matmul({.x = buffers_.normed.data(),
                     .x_stride = shape_.hidden,
                     .num_rows = count,
                     .w = head_->matrix,
                     .y = logits + begin * vocab_size_,
                     .y_stride = vocab_size_},
                    buffers_.matmul, pool_);
  }
}

}  // namespace paceline
