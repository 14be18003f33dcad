#include "tests/sim/toy_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "stage_worker/verify.h"
#include "tests/sim/sim_random.h"

namespace paceline::sim {
namespace {

uint64_t ValueOf(TokenId id, Position position) { return Mix(static_cast<uint64_t>(id), position); }

TokenId TokenOf(uint64_t fold, Position position, const SamplingParams& sampling,
                const ToyVocabulary& vocabulary) {
  const uint64_t noise = Mix(sampling.seed, Mix(sampling.choice, position));
  return static_cast<TokenId>(Mix(fold, noise) % vocabulary.size);
}

// The toy's only logit rule: below min_tokens an end id is masked to the one behind it.
TokenId Masked(TokenId id, uint32_t output_len, const SamplingParams& sampling,
               const ToyVocabulary& vocabulary) {
  const auto& stops = sampling.stop_token_ids;
  while (output_len < sampling.min_tokens && std::find(stops.begin(), stops.end(), id) != stops.end()) {
    id = static_cast<TokenId>((static_cast<uint32_t>(id) + 1) % vocabulary.size);
  }
  return id;
}

std::string TextOf(TokenId id) { return fmt::format("{} ", id); }

}  // namespace

TokenId NextToken(std::span<const TokenId> ids, const SamplingParams& sampling,
                  const ToyVocabulary& vocabulary) {
  uint64_t fold = 0;
  for (size_t i = 0; i < ids.size(); ++i) fold = Mix(fold, ValueOf(ids[i], static_cast<Position>(i)));
  return TokenOf(fold, static_cast<Position>(ids.size()), sampling, vocabulary);
}

float ToyLogprob(TokenId id, Position position) {
  return -static_cast<float>(ValueOf(id, position) % 1000) / 100.0f;
}

// ---------------------------------------------------------------- executor

void ToyExecutor::Reset(uint32_t kv_blocks, uint32_t kv_block_size) {
  block_size_ = kv_block_size;
  cells_.assign(size_t{kv_blocks} * kv_block_size, Cell{});
  sequences_.clear();
}

void ToyExecutor::Admit(const Admission& admission) {
  sequences_[KeyOf(admission.sequence, admission.lineage)] = admission;
}

ToyExecutor::Cell& ToyExecutor::At(const WorkSequence& sequence, Slot slot, std::string& failure) {
  const size_t index = slot / block_size_;
  if (index >= sequence.blocks.size()) {
    if (failure.empty()) failure = fmt::format("slot {} lies outside of the table", slot);
    return outside_;
  }
  return cells_[size_t{sequence.blocks[index].value()} * block_size_ + slot % block_size_];
}

void ToyExecutor::RunRow(const WorkSequence& sequence, const WorkRow& row, const ToyPayload* input,
                         ToyRow& out, std::string& failure) {
  const ToyRow in =
      options_.stage == 0 ? ToyRow{ValueOf(row.id, row.position), 0} : (*input)[row.payload_row];
  At(sequence, row.slot, failure) = {in.value, sequence.key, true};
  uint64_t fold = 0;
  const auto read = [&](Slot slot) {
    const Cell& cell = At(sequence, slot, failure);
    if ((!cell.written || cell.owner != sequence.key) && failure.empty()) {
      failure = fmt::format("watchman: stage {} seq {}.{} reads slot {} of position {}, written by {}.{}",
                            options_.stage, sequence.key.sequence, sequence.key.counter, slot, row.position,
                            cell.owner.sequence, cell.owner.counter);
    }
    fold = Mix(fold, cell.value);
  };
  for (Slot slot = 0; slot < row.prefix_len; ++slot) read(slot);
  out.value = in.value;
  // Stages that read different things must not agree by chance.
  out.fold = options_.stage == 0 || in.fold == fold ? fold : Mix(fold, in.fold + 1);
}

SequenceResult ToyExecutor::Draw(const WorkSequence& sequence, const StageWork& work,
                                 const ToyPayload& output, std::string& failure) {
  struct Drawer : RowDrawer {
    std::function<TokenId(uint32_t)> draw;
    std::optional<TokenId> Draw(uint32_t row) override { return draw(row); }
  };
  SequenceResult result;
  result.key = sequence.key;
  const auto known = sequences_.find(sequence.key);
  if (known == sequences_.end()) {
    if (failure.empty()) failure = fmt::format("seq {} draws but was not admitted", sequence.key.sequence);
    return result;
  }
  Admission& admission = known->second;
  const uint32_t total_max = static_cast<uint32_t>(std::min<uint64_t>(
      uint64_t{admission.prompt_len} + admission.sampling.max_tokens, options_.max_model_len));
  const WorkRow& last_row = work.rows[sequence.row_begin + sequence.row_count - 1];
  if (last_row.position + 1 >= total_max && failure.empty()) {
    failure = fmt::format("P9: seq {} has a row at position {}, it ends at {} tokens", sequence.key.sequence,
                          last_row.position, total_max);
  }
  std::vector<TokenId> row_ids;
  for (uint32_t i = 0; i < sequence.row_count; ++i) row_ids.push_back(work.rows[sequence.row_begin + i].id);
  Drawer drawer;
  drawer.draw = [&](uint32_t i) {
    const WorkRow& row = work.rows[sequence.row_begin + i];
    const uint32_t output_len = row.position + 1 - admission.prompt_len;
    return Masked(
        TokenOf(output[row.payload_row].fold, row.position + 1, admission.sampling, options_.vocabulary),
        output_len, admission.sampling, options_.vocabulary);
  };
  ChainResult chain = VerifyChain(row_ids, sequence.judge_begin, drawer);
  if (sequence.draw_position != admission.ids.size() && failure.empty()) {
    failure = fmt::format("seq {} draws position {}, the sampler's history has {} ids", sequence.key.sequence,
                          sequence.draw_position, admission.ids.size());
  }
  Position position = sequence.draw_position;
  for (TokenId id : chain.ids) result.logprobs.push_back({ToyLogprob(id, position++), 1, {}});
  admission.ids.insert(admission.ids.end(), chain.ids.begin(), chain.ids.end());
  result.ids = std::move(chain.ids);
  result.num_matched = chain.num_matched;
  return result;
}

ExecutionResult ToyExecutor::Run(const StageWork& work, const ToyPayload* input,
                                 const std::set<SequenceKey>& died, ToyPayload& output,
                                 std::string& failure) {
  output.assign(work.payload_rows, ToyRow{});
  ExecutionResult result;
  result.generation = work.generation;
  result.step = work.step;
  result.compute_micros = 1;
  for (const WorkSequence& sequence : work.sequences) {
    if (died.contains(sequence.key)) {
      SequenceResult& part = result.sequences.emplace_back();
      part.key = sequence.key;
      part.died = true;
      continue;
    }
    for (uint32_t i = 0; i < sequence.row_count; ++i) {
      const WorkRow& row = work.rows[sequence.row_begin + i];
      // The row at max_model_len - 1 would draw a token that no sequence may have (P9).
      if (row.position + 1 >= options_.max_model_len && failure.empty()) {
        failure =
            fmt::format("P9: a row at position {} in a context of {}", row.position, options_.max_model_len);
      }
      RunRow(sequence, row, input, output[row.payload_row], failure);
    }
    if (options_.last && sequence.draws) result.sequences.push_back(Draw(sequence, work, output, failure));
  }
  return result;
}

// ---------------------------------------------------------------- proposer

void ToyProposer::Admit(const Admission& admission) {
  copies_[KeyOf(admission.sequence, admission.lineage)] = {admission.ids, admission.sampling};
}

std::vector<std::vector<TokenId>> ToyProposer::Propose(std::span<const ProposeItem> items) {
  std::vector<std::vector<TokenId>> all;
  for (const ProposeItem& item : items) {
    std::vector<TokenId>& drafts = all.emplace_back();
    Copy& copy = copies_.at(item.key);
    copy.ids.resize(item.keep);
    copy.ids.insert(copy.ids.end(), item.append.begin(), item.append.end());
    for (uint32_t i = 0; i < item.draft_len_max; ++i) {
      const uint64_t fold = NextToken(copy.ids, copy.sampling, {1u << 30});
      const bool stops_early = Mix(fold, seed_ + 2) % 16 == 0;
      if (stops_early) break;
      TokenId id = NextToken(copy.ids, copy.sampling, vocabulary_);
      const bool agrees = static_cast<double>(Mix(fold, seed_) >> 11) * 0x1p-53 < agreement_;
      if (!agrees) id = static_cast<TokenId>((static_cast<uint32_t>(id) + 1) % vocabulary_.size);
      copy.ids.push_back(id);
      drafts.push_back(id);
    }
  }
  return all;
}

// ---------------------------------------------------------------- answers

bool PairWatcher::OnToken(TokenId id, bool searchable, bool hidden) {
  if (hidden) return false;
  text_ += TextOf(id);
  const bool completes = searchable && before_ == first_ && id == second_;
  before_ = searchable ? id : -1;
  if (completes) stop_string_ = TextOf(first_) + TextOf(second_);
  return completes;
}

std::string PairWatcher::TakeText(bool) { return std::exchange(text_, ""); }

ExpectedAnswer PlainAnswer(const std::vector<TokenId>& prompt, const SamplingParams& sampling,
                           const StopPair& pair, uint32_t max_model_len, const ToyVocabulary& vocabulary) {
  ExpectedAnswer answer;
  std::vector<TokenId> ids = prompt;
  const auto& stops = sampling.stop_token_ids;
  while (answer.finish == FinishReason::kNone) {
    const auto produced = static_cast<uint32_t>(answer.ids.size());
    const TokenId id = Masked(NextToken(ids, sampling, vocabulary), produced, sampling, vocabulary);
    ids.push_back(id);
    answer.ids.push_back(id);
    const bool stop_id =
        produced + 1 >= sampling.min_tokens && std::find(stops.begin(), stops.end(), id) != stops.end();
    if (!stop_id) answer.text += TextOf(id);
    // Both ids of the pair lie behind the first min_tokens ones.
    const bool pair_done = pair.present && !stop_id && produced >= sampling.min_tokens + 1 &&
                           answer.ids[produced - 1] == pair.first && id == pair.second;
    if (stop_id || pair_done) {
      answer.finish = FinishReason::kStop;
    } else if (answer.ids.size() >= sampling.max_tokens || ids.size() >= max_model_len) {
      answer.finish = FinishReason::kLength;
    }
  }
  if (!pair.present) answer.text.clear();
  return answer;
}

}  // namespace paceline::sim
