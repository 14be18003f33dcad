#include "draft_worker/model_proposer.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/log.h"

namespace paceline {

ModelProposer::ModelProposer(const ModelProposerOptions& options)
    : options_(options), pool_(static_cast<int>(options.threads)) {}

StatusOr<std::unique_ptr<ModelProposer>> ModelProposer::Create(const WeightSource& source,
                                                               const ModelProposerOptions& options) {
  const ModelConfig& config = source.config();
  std::unique_ptr<ModelProposer> proposer(new ModelProposer(options));
  StageModelOptions model_options;
  model_options.layers = {0, config.num_layers, true, true};
  model_options.rows_max = options.rows_max;
  model_options.positions_max = options.positions_max;
  ASSIGN_OR_RETURN(proposer->model_, StageModel::Load(source, model_options, proposer->pool_));
  ASSIGN_OR_RETURN(KvPool kv, KvPool::Create(proposer->model_->KvShape(
                                  options.kv_blocks, options.kv_block_size, options.kv_dtype)));
  proposer->kv_.emplace(std::move(kv));
  proposer->residual_.resize(size_t{options.rows_max} * config.hidden_size);
  proposer->Reset();
  return proposer;
}

void ModelProposer::Reset() {
  sequences_.clear();
  free_blocks_.clear();
  for (uint32_t b = options_.kv_blocks; b-- > 0;) free_blocks_.emplace_back(b);
}

void ModelProposer::Admit(const Admission& admission) {
  const SequenceKey key = KeyOf(admission.sequence, admission.lineage);
  Release(key);
  auto sequence = std::make_unique<Sequence>();
  sequence->ids = admission.ids;
  if (options_.sampling == DraftSampling::kProbabilistic) {
    const SamplerVocab vocab{model_->vocab_size(),
                             std::min(model_->vocab_size(), options_.target_vocab_size)};
    StatusOr<SequenceSampler> sampler =
        SequenceSampler::Create(vocab, admission.sampling, admission.ids, admission.prompt_len);
    // Parameters that cannot be applied here (ids beyond a smaller draft's rows) leave the sequence to greedy
    // drafts.
    if (sampler.ok()) sequence->sampler.emplace(*std::move(sampler));
  }
  sequences_[key] = std::move(sequence);
}

void ModelProposer::Release(const SequenceKey& key) {
  const auto it = sequences_.find(key);
  if (it == sequences_.end()) return;
  free_blocks_.insert(free_blocks_.end(), it->second->blocks.begin(), it->second->blocks.end());
  sequences_.erase(it);
}

ModelProposer::Sequence& ModelProposer::Edit(const ProposeItem& item) {
  const auto it = sequences_.find(item.key);
  CHECK(it != sequences_.end()) << "a proposal for a sequence that was not admitted";
  Sequence& sequence = *it->second;
  CHECK_LE(item.keep, sequence.ids.size());
  // Rollback is this minimum: rows at and beyond it are written again.
  sequence.kv_len = std::min<uint32_t>(sequence.kv_len, item.keep);
  sequence.ids.resize(item.keep);
  sequence.ids.insert(sequence.ids.end(), item.append.begin(), item.append.end());
  if (sequence.sampler.has_value()) {
    SequenceSampler& sampler = *sequence.sampler;
    sampler.PopDrafts();
    while (sampler.next_position() < item.committed_len)
      sampler.Append(sequence.ids[sampler.next_position()]);
    for (size_t p = item.committed_len; p < sequence.ids.size(); ++p) sampler.PushDraft(sequence.ids[p]);
  }
  return sequence;
}

bool ModelProposer::Cover(Sequence& sequence, uint32_t len) {
  while (size_t{options_.kv_block_size} * sequence.blocks.size() < len) {
    if (free_blocks_.empty()) return false;
    sequence.blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
  return true;
}

std::vector<std::vector<TokenId>> ModelProposer::Propose(std::span<const ProposeItem> items) {
  std::vector<std::vector<TokenId>> out(items.size());
  std::vector<Active> active;
  for (size_t i = 0; i < items.size(); ++i) {
    Sequence& sequence = Edit(items[i]);
    const auto len = static_cast<uint32_t>(sequence.ids.size());
    // A draft of position p is drawn from the row at p - 1, which the draft's context must hold.
    const uint32_t room = options_.positions_max > len ? options_.positions_max - len : 0;
    const uint32_t want = std::min(items[i].draft_len_max, room);
    if (want > 0 && len > 0 && Cover(sequence, len + want)) active.push_back({&sequence, want, &out[i]});
  }
  while (!active.empty()) {
    RunToEnd(active);
    std::vector<Active> next;
    for (size_t i = 0; i < active.size(); ++i) {
      const std::span<const float> logits(logits_.data() + i * model_->vocab_size(), model_->vocab_size());
      const std::optional<TokenId> id = Draw(*active[i].sequence, logits);
      if (!id.has_value()) continue;
      active[i].sequence->ids.push_back(*id);
      active[i].out->push_back(*id);
      if (--active[i].want > 0) next.push_back(active[i]);
    }
    active = std::move(next);
  }
  return out;
}

std::optional<TokenId> ModelProposer::Draw(Sequence& sequence, std::span<const float> logits) {
  if (sequence.sampler.has_value()) {
    StatusOr<DrawnToken> drawn =
        sequence.sampler->Draw(logits, static_cast<Position>(sequence.ids.size()), scratch_);
    if (!drawn.ok()) return std::nullopt;
    sequence.sampler->PushDraft(drawn->id);
    return drawn->id;
  }
  const size_t num_ids = std::min<size_t>(logits.size(), options_.target_vocab_size);
  const auto best = std::max_element(logits.begin(), logits.begin() + static_cast<ptrdiff_t>(num_ids));
  return static_cast<TokenId>(best - logits.begin());
}

void ModelProposer::RunToEnd(std::span<Active> active) {
  logits_.resize(active.size() * model_->vocab_size());
  std::vector<ForwardRow> rows;
  std::vector<std::span<const BlockId>> tables;
  std::vector<uint32_t> which;
  size_t logits_at = 0;
  const auto flush = [&] {
    RunRows(rows, tables, which, logits_at);
    logits_at += which.size();
    rows.clear();
    tables.clear();
    which.clear();
  };
  for (const Active& item : active) {
    Sequence& sequence = *item.sequence;
    // The last id's row is always run: its logits are what is asked for.
    const auto len = static_cast<uint32_t>(sequence.ids.size());
    sequence.kv_len = std::min(sequence.kv_len, len - 1);
    tables.emplace_back(sequence.blocks);
    for (Position p = sequence.kv_len; p < len; ++p) {
      if (rows.size() == options_.rows_max) {
        flush();
        tables.emplace_back(sequence.blocks);
      }
      const auto row = static_cast<uint32_t>(rows.size());
      rows.push_back({.id = sequence.ids[p],
                      .position = p,
                      .sequence_index = static_cast<uint32_t>(tables.size() - 1),
                      .slot = p,
                      .prefix_len = p + 1,
                      .residual_row = row});
      if (p + 1 == len) which.push_back(row);
    }
    sequence.kv_len = len;
  }
  flush();
}

void ModelProposer::RunRows(std::span<const ForwardRow> rows,
                            std::span<const std::span<const BlockId>> tables, std::span<const uint32_t> which,
                            size_t logits_at) {
  const ForwardBatch batch{rows, tables, static_cast<uint32_t>(rows.size())};
  const StatusOr<ForwardResult> result =
      model_->Forward(batch, *kv_, residual_.data(), residual_.data(), [](uint32_t) { return false; });
  // Ids and blocks were checked when they came in; what is left is our own defect.
  CHECK(result.ok()) << result.status().ToString();
  if (!which.empty())
    model_->Logits(residual_.data(), which, logits_.data() + logits_at * model_->vocab_size());
}

}  // namespace paceline
