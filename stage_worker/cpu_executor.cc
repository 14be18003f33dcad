#include "stage_worker/cpu_executor.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "stage_worker/verify.h"

namespace paceline {
namespace {

// Rows of logits that are written at once: bounds the buffer (128 x 49152 x 4 bytes = 24 MiB) while the
// head's weights are still streamed for many rows together.
constexpr uint32_t kLogitRowsMax = 128;

// Draws along one sequence's rows with its own sampler; the history grows with the accepted rows.
class SamplerDrawer : public RowDrawer {
 public:
  SamplerDrawer(SequenceSampler& sampler, SamplerScratch& scratch, std::span<const WorkRow> rows,
                const WorkSequence& sequence, const float* logits, uint32_t vocab)
      : sampler_(sampler),
        scratch_(scratch),
        rows_(rows),
        sequence_(sequence),
        logits_(logits),
        vocab_(vocab) {}
  ~SamplerDrawer() override { sampler_.PopDrafts(); }

  std::optional<TokenId> Draw(uint32_t row) override {
    if (row > sequence_.judge_begin) sampler_.PushDraft(rows_[row].id);
    const uint32_t offset = row - sequence_.judge_begin;
    const std::span<const float> raw(logits_ + size_t{offset} * vocab_, vocab_);
    StatusOr<DrawnToken> drawn = sampler_.Draw(raw, sequence_.draw_position + offset, scratch_);
    if (!drawn.ok()) {
      status_ = drawn.status();
      return std::nullopt;
    }
    if (drawn->has_logprobs()) logprobs_.push_back(std::move(drawn->logprobs));
    return drawn->id;
  }

  std::vector<TokenLogprobs>& logprobs() { return logprobs_; }
  const Status& status() const { return status_; }

 private:
  SequenceSampler& sampler_;
  SamplerScratch& scratch_;
  std::span<const WorkRow> rows_;
  const WorkSequence& sequence_;
  const float* logits_;
  uint32_t vocab_;
  std::vector<TokenLogprobs> logprobs_;
  Status status_;
};

}  // namespace

CpuExecutor::CpuExecutor(const CpuExecutorOptions& options, PayloadStore& payloads, DeadRows& dead)
    : options_(options), payloads_(payloads), dead_(dead), pool_(static_cast<int>(options.threads)) {}

StatusOr<std::unique_ptr<CpuExecutor>> CpuExecutor::Create(const WeightSource& source,
                                                           const CpuExecutorOptions& options,
                                                           PayloadStore& payloads, DeadRows& dead) {
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(options, payloads, dead));
  StageModelOptions model_options;
  model_options.layers = options.layers;
  model_options.rows_max = options.rows_max;
  model_options.positions_max = options.positions_max;
  ASSIGN_OR_RETURN(executor->model_, StageModel::Load(source, model_options, executor->pool_));
  ASSIGN_OR_RETURN(KvPool kv, KvPool::Create(executor->model_->KvShape(
                                  options.kv_blocks, options.kv_block_size, options.kv_dtype)));
  executor->kv_.emplace(std::move(kv));
  executor->residual_.reserve(size_t{options.rows_max} * executor->model_->hidden_size());
  return executor;
}

void CpuExecutor::Admit(const Admission& admission) {
  const SequenceKey key = KeyOf(admission.sequence, admission.lineage);
  const uint32_t vocab = model_->vocab_size();
  const SamplerVocab sampler_vocab{
      vocab, options_.num_token_ids == 0 ? vocab : std::min(vocab, options_.num_token_ids)};
  StatusOr<SequenceSampler> sampler =
      SequenceSampler::Create(sampler_vocab, admission.sampling, admission.ids, admission.prompt_len);
  samplers_.erase(key);
  refused_.erase(key);
  if (sampler.ok()) {
    samplers_.emplace(key, *std::move(sampler));
  } else {
    LogWarn("admission_refused", "seq={} reason=\"{}\"", key.sequence, Message(sampler.status()));
    refused_.emplace(key, sampler.status());
  }
}

void CpuExecutor::Forget(const SequenceKey& key) {
  samplers_.erase(key);
  refused_.erase(key);
}

Status CpuExecutor::Reset(uint32_t kv_blocks, uint32_t kv_block_size) {
  samplers_.clear();
  refused_.clear();
  if (kv_blocks > options_.kv_blocks || kv_block_size != options_.kv_block_size) {
    return InvalidArgumentError("the generation wants {} KV blocks of {} tokens, the pool has {} of {}",
                                kv_blocks, kv_block_size, options_.kv_blocks, options_.kv_block_size);
  }
  return OkStatus();
}

void CpuExecutor::BuildBatch(const StageWork& work) {
  rows_.clear();
  tables_.clear();
  died_.assign(work.sequences.size(), 0);
  for (size_t s = 0; s < work.sequences.size(); ++s) {
    const WorkSequence& sequence = work.sequences[s];
    tables_.emplace_back(sequence.blocks);
    for (uint32_t r = sequence.row_begin; r < sequence.row_begin + sequence.row_count; ++r) {
      const WorkRow& row = work.rows[r];
      rows_.push_back({.id = row.id,
                       .position = row.position,
                       .sequence_index = static_cast<uint32_t>(s),
                       .slot = row.slot,
                       .prefix_len = row.prefix_len,
                       .tail_slots = std::span(work.tail_slots).subspan(row.tail_begin, row.tail_count),
                       .residual_row = row.payload_row});
    }
  }
}

StatusOr<const float*> CpuExecutor::Input(const StageWork& work,
                                          std::shared_ptr<const AlignedBuffer>& holder) const {
  if (model_->has_embedding() || rows_.empty()) return nullptr;
  holder = payloads_.Get(work.input);
  const size_t bytes = size_t{work.payload_rows} * model_->hidden_size() * sizeof(float);
  if (holder == nullptr || holder->size() != bytes) {
    return InvalidArgumentError("step {}: want a payload of {} rows x {}, found {} bytes", work.step,
                                work.payload_rows, model_->hidden_size(),
                                holder == nullptr ? 0 : holder->size());
  }
  return reinterpret_cast<const float*>(holder->data());
}

StatusOr<ExecutionResult> CpuExecutor::Run(const StageWork& work) {
  const Instant begin = MonotonicNow();
  for (const WorkSequence& sequence : work.sequences)
    RETURN_IF_ERROR(kv_->MoveRows(sequence.blocks, sequence.moves));

  BuildBatch(work);
  std::shared_ptr<const AlignedBuffer> input_holder;
  ASSIGN_OR_RETURN(const float* input, Input(work, input_holder));
  const size_t payload_floats = size_t{work.payload_rows} * model_->hidden_size();
  AlignedBuffer payload;
  float* output = nullptr;
  if (model_->has_head()) {
    residual_.resize(payload_floats);
    output = residual_.data();
  } else {
    payload = AlignedBuffer(payload_floats * sizeof(float));
    output = reinterpret_cast<float*>(payload.data());
    std::memset(output, 0, payload.size());  // rows of dead sequences travel as zeros
  }

  const auto is_dead = [&](uint32_t sequence) {
    if (dead_.IsDead(work.step, work.sequences[sequence].key)) died_[sequence] = 1;
    return died_[sequence] != 0;
  };
  const ForwardBatch batch{rows_, tables_, work.payload_rows};
  RETURN_IF_ERROR(model_->Forward(batch, *kv_, input, output, is_dead).status());

  ExecutionResult result;
  result.generation = work.generation;
  result.step = work.step;
  if (model_->has_head()) {
    Judge(work, output, result);
  } else {
    result.output = payloads_.Put(std::move(payload));
  }
  dead_.Forget(work.step);
  result.compute_micros = static_cast<uint32_t>(ToMicros(MonotonicNow() - begin));
  return result;
}

void CpuExecutor::Judge(const StageWork& work, const float* residual, ExecutionResult& result) {
  size_t next = 0;
  while (next < work.sequences.size()) {
    // As many sequences as fit the logits buffer, at least one.
    which_.clear();
    std::vector<Judged> batch;
    for (; next < work.sequences.size(); ++next) {
      const WorkSequence& sequence = work.sequences[next];
      if (!sequence.draws || sequence.row_count == 0) continue;
      const uint32_t rows = died_[next] != 0 ? 0 : sequence.row_count - sequence.judge_begin;
      if (!which_.empty() && which_.size() + rows > kLogitRowsMax) break;
      batch.push_back({&sequence, static_cast<uint32_t>(which_.size())});
      for (uint32_t r = 0; r < rows; ++r) {
        which_.push_back(work.rows[sequence.row_begin + sequence.judge_begin + r].payload_row);
      }
    }
    logits_.resize(which_.size() * model_->vocab_size());
    if (!which_.empty()) model_->Logits(residual, which_, logits_.data());
    for (const Judged& judged : batch) {
      JudgeSequence(work, *judged.sequence, logits_.data() + size_t{judged.logit_row} * model_->vocab_size(),
                    result);
    }
  }
}

void CpuExecutor::JudgeSequence(const StageWork& work, const WorkSequence& sequence, const float* logits,
                                ExecutionResult& result) {
  SequenceResult& out = result.sequences.emplace_back();
  out.key = sequence.key;
  if (died_[static_cast<size_t>(&sequence - work.sequences.data())] != 0) {
    out.died = true;
    return;
  }
  const auto found = samplers_.find(sequence.key);
  if (found == samplers_.end()) {
    // The core admits before it judges, so what is missing was refused at its admission.
    CHECK(refused_.contains(sequence.key))
        << "step " << work.step << " judges a sequence that was not admitted";
    out.failure = RowFailure::kNothingAllowed;
    return;
  }
  const std::span<const WorkRow> rows = std::span(work.rows).subspan(sequence.row_begin, sequence.row_count);
  std::vector<TokenId> row_ids;
  row_ids.reserve(rows.size());
  for (const WorkRow& row : rows) row_ids.push_back(row.id);

  ChainResult chain;
  {
    SamplerDrawer drawer(found->second, scratch_, rows, sequence, logits, model_->vocab_size());
    chain = VerifyChain(row_ids, sequence.judge_begin, drawer);
    out.logprobs = std::move(drawer.logprobs());
    if (chain.failed) {
      out.failure = drawer.status().code() == absl::StatusCode::kDataLoss ? RowFailure::kNotFinite
                                                                          : RowFailure::kNothingAllowed;
    }
  }
  for (const TokenId id : chain.ids) found->second.Append(id);
  out.ids = std::move(chain.ids);
  out.num_matched = chain.num_matched;
}

}  // namespace paceline
