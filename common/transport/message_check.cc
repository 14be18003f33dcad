#include "common/transport/message_check.h"

#include <fmt/format.h>  // ids format through it; fmt/core.h alone does not link

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline {
namespace {

// No host has more ranks; a larger number is noise.
constexpr uint32_t kRankMax = 65535;
constexpr size_t kTextBytesMax = 4096;
// Positions and slots are counted in int32 by kernels.
constexpr uint64_t kPositionMax = std::numeric_limits<int32_t>::max();

Status CheckIds(std::string_view what, const std::vector<TokenId>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) return InvalidArgumentError("{}[{}]: token id {} is negative", what, i, ids[i]);
  }
  return OkStatus();
}

Status CheckText(std::string_view what, const std::string& text) {
  if (text.size() <= kTextBytesMax) return OkStatus();
  return InvalidArgumentError("{}: {} bytes, at most {}", what, text.size(), kTextBytesMax);
}

Status CheckAtLeastOne(std::string_view what, uint64_t value) {
  if (value >= 1) return OkStatus();
  return InvalidArgumentError("{}: 0, must be at least 1", what);
}

// The rows [begin, begin + count) lie where kernels can count.
Status CheckSpan(std::string_view what, uint64_t begin, uint64_t count) {
  if (begin + count <= kPositionMax) return OkStatus();
  return InvalidArgumentError("{}: ends at position {}, at most {}", what, begin + count, kPositionMax);
}

template <typename Sequence>
Status CheckDistinct(std::string_view what, const std::vector<Sequence>& sequences) {
  std::vector<SequenceId> ids;
  ids.reserve(sequences.size());
  for (const Sequence& one : sequences) ids.push_back(one.sequence);
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice == ids.end()) return OkStatus();
  return InvalidArgumentError("{}: sequence {} occurs twice", what, *twice);
}

Status CheckRange(std::string_view what, float value, float low, float high) {
  if (value >= low && value <= high) return OkStatus();  // false for NaN
  return InvalidArgumentError("SamplingParams.{}: {}, must be {} to {}", what, value, low, high);
}

Status CheckSampling(const SamplingParams& params) {
  constexpr float kMax = std::numeric_limits<float>::max();
  RETURN_IF_ERROR(CheckRange("temperature", params.temperature, 0, kMax));
  RETURN_IF_ERROR(CheckRange("top_p", params.top_p, std::numeric_limits<float>::denorm_min(), 1));
  RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0, 1));
  RETURN_IF_ERROR(CheckRange("presence_penalty", params.presence_penalty, -kMax, kMax));
  RETURN_IF_ERROR(CheckRange("frequency_penalty", params.frequency_penalty, -kMax, kMax));
  RETURN_IF_ERROR(CheckRange("repetition_penalty", params.repetition_penalty,
                             std::numeric_limits<float>::denorm_min(), kMax));
  if (params.top_k < 0) return InvalidArgumentError("SamplingParams.top_k: {} is negative", params.top_k);
  if (params.logprobs < -1)
    return InvalidArgumentError("SamplingParams.logprobs: {}, at least -1", params.logprobs);
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0) return InvalidArgumentError("SamplingParams.logit_bias: token id {} is negative", id);
    if (std::isnan(bias)) return InvalidArgumentError("SamplingParams.logit_bias: id {} has no number", id);
  }
  RETURN_IF_ERROR(CheckIds("SamplingParams.allowed_token_ids", params.allowed_token_ids));
  RETURN_IF_ERROR(CheckIds("SamplingParams.stop_token_ids", params.stop_token_ids));
  RETURN_IF_ERROR(CheckIds("SamplingParams.eos_token_ids", params.eos_token_ids));
  for (const auto& word : params.bad_words) RETURN_IF_ERROR(CheckIds("SamplingParams.bad_words", word));
  return OkStatus();
}

Status CheckSource(std::string_view what, const LogSource& source) {
  RETURN_IF_ERROR(CheckText(what, source.publish));
  return CheckText(what, source.replay);
}

Status CheckSequence(const SequencePlan& plan) {
  RETURN_IF_ERROR(CheckIds("SequencePlan.known_ids", plan.known_ids));
  if (plan.known_ids.empty() && !plan.continuation) {
    return InvalidArgumentError("SequencePlan of sequence {}: no known ids and no continuation (P10)",
                                plan.sequence);
  }
  RETURN_IF_ERROR(
      CheckSpan("SequencePlan", plan.start, uint64_t{plan.draft_len_max} + plan.known_ids.size()));
  return CheckSpan("SequencePlan.blocks", plan.blocks.len_before, plan.blocks.appended.size());
}

Status CheckSequence(const SequenceProposal& proposal) {
  RETURN_IF_ERROR(CheckIds("SequenceProposal.ids", proposal.ids));
  RETURN_IF_ERROR(CheckSpan("SequenceProposal", proposal.base, proposal.ids.size()));
  if (proposal.parents.empty()) return OkStatus();
  if (proposal.parents.size() != proposal.ids.size()) {
    return InvalidArgumentError("SequenceProposal of sequence {}: {} parents for {} ids", proposal.sequence,
                                proposal.parents.size(), proposal.ids.size());
  }
  for (size_t i = 0; i < proposal.parents.size(); ++i) {
    if (proposal.parents[i] < -1 || proposal.parents[i] >= static_cast<int64_t>(i)) {
      return InvalidArgumentError("SequenceProposal of sequence {}: parent {} of id {} is not before it",
                                  proposal.sequence, proposal.parents[i], i);
    }
  }
  return OkStatus();
}

Status CheckSequence(const SequenceVerdict& verdict) {
  RETURN_IF_ERROR(CheckIds("SequenceVerdict.ids", verdict.ids));
  RETURN_IF_ERROR(CheckSpan("SequenceVerdict", verdict.first_position, verdict.ids.size()));
  if (verdict.failure > RowFailure::kNothingAllowed) {
    return InvalidArgumentError("SequenceVerdict.failure: {} is unknown", static_cast<int>(verdict.failure));
  }
  if (verdict.num_accepted > verdict.num_drafted) {
    return InvalidArgumentError("SequenceVerdict of sequence {}: {} accepted of {} drafted", verdict.sequence,
                                verdict.num_accepted, verdict.num_drafted);
  }
  if (!verdict.logprobs.empty() && verdict.logprobs.size() != verdict.ids.size()) {
    return InvalidArgumentError("SequenceVerdict of sequence {}: {} logprobs for {} ids", verdict.sequence,
                                verdict.logprobs.size(), verdict.ids.size());
  }
  for (const TokenLogprobs& token : verdict.logprobs) {
    for (const auto& [id, logprob] : token.top) {
      if (id < 0) return InvalidArgumentError("SequenceVerdict.top_ids: token id {} is negative", id);
    }
  }
  return OkStatus();
}

template <typename Sequence>
Status CheckSequences(std::string_view what, StepId step, const std::vector<Sequence>& sequences) {
  RETURN_IF_ERROR(CheckAtLeastOne(what, step.value()));
  for (const Sequence& one : sequences) RETURN_IF_ERROR(CheckSequence(one));
  return CheckDistinct(what, sequences);
}

// One function per kind; kinds that any bits can express have none and take the template at the end.
struct Checker {
  Status operator()(const Hello& hello) const {
    if (hello.worker.role != Role::kStage && hello.worker.role != Role::kDrafter) {
      return InvalidArgumentError("Hello.role: {}, must be 1 (stage) or 2 (drafter)",
                                  static_cast<int>(hello.worker.role));
    }
    if (hello.worker.rank > kRankMax) {
      return InvalidArgumentError("Hello.rank: {}, at most {}", hello.worker.rank, kRankMax);
    }
    const Fingerprint& print = hello.fingerprint;
    for (const std::string* text :
         {&print.build_id, &print.model_digest, &print.tokenizer_digest, &print.dtype, &print.numerics_class,
          &hello.endpoints.log_publish, &hello.endpoints.log_replay, &hello.endpoints.tensor_listen,
          &hello.host}) {
      RETURN_IF_ERROR(CheckText("Hello", *text));
    }
    if (print.layers_per_stage.size() > kRankMax) {
      return InvalidArgumentError("Hello.layers_per_stage: {} stages, at most {}",
                                  print.layers_per_stage.size(), kRankMax);
    }
    return OkStatus();
  }
  Status operator()(const Refusal& refusal) const { return CheckText("Refusal.reason", refusal.reason); }
  Status operator()(const Goodbye& goodbye) const { return CheckText("Goodbye.reason", goodbye.reason); }
  Status operator()(const Heartbeat& beat) const { return CheckText("Heartbeat.phase", beat.phase); }
  Status operator()(const Reconfigure& message) const {
    RETURN_IF_ERROR(CheckAtLeastOne("Reconfigure.num_stages", message.num_stages));
    RETURN_IF_ERROR(CheckAtLeastOne("Reconfigure.num_slots", message.num_slots));
    RETURN_IF_ERROR(CheckAtLeastOne("Reconfigure.launch_window", message.launch_window));
    RETURN_IF_ERROR(CheckText("Reconfigure.next_stage_tensor_listen", message.next_stage_tensor_listen));
    RETURN_IF_ERROR(CheckSource("Reconfigure.verdicts", message.verdicts));
    return CheckSource("Reconfigure.proposals", message.proposals);
  }
  Status operator()(const DrafterChange& message) const {
    return CheckSource("DrafterChange.proposals", message.proposals);
  }
  Status operator()(const Admission& message) const {
    RETURN_IF_ERROR(CheckIds("Admission.ids", message.ids));
    if (message.prompt_len > message.ids.size()) {
      return InvalidArgumentError("Admission.prompt_len: {} of {} ids", message.prompt_len,
                                  message.ids.size());
    }
    return CheckSampling(message.sampling);
  }
  Status operator()(const StepPlan& plan) const {
    return CheckSequences("StepPlan", plan.step, plan.sequences);
  }
  Status operator()(const Proposal& message) const {
    return CheckSequences("Proposal", message.step, message.sequences);
  }
  Status operator()(const Verdict& message) const {
    return CheckSequences("Verdict", message.step, message.sequences);
  }
  Status operator()(const ReplayAnswer& answer) const {
    if (answer.state <= ReplayState::kGone) return OkStatus();
    return InvalidArgumentError("ReplayAnswer.state: {} is unknown", static_cast<int>(answer.state));
  }
  template <typename Other>
  Status operator()(const Other&) const {
    return OkStatus();
  }
};

Status CheckRow(const FrameHeader& header, size_t index) {
  const FrameRow& row = header.rows[index];
  if (row.id < 0) return InvalidArgumentError("Frame.row_ids[{}]: token id {} is negative", index, row.id);
  if (row.position > kPositionMax || row.slot > kPositionMax) {
    return InvalidArgumentError("Frame row {}: position {}, slot {}, at most {}", index, row.position,
                                row.slot, kPositionMax);
  }
  if (row.parent < kParentPrevious || row.parent >= static_cast<int64_t>(index)) {
    return InvalidArgumentError("Frame.row_parents[{}]: {} is not before its row", index, row.parent);
  }
  return OkStatus();
}

}  // namespace

Status CheckMeaning(const WireMessage& message) { return std::visit(Checker{}, message); }

Status CheckMeaning(const FrameHeader& header) {
  RETURN_IF_ERROR(CheckAtLeastOne("Frame.step", header.step.value()));
  uint64_t rows_before = 0;
  for (const FrameSequence& one : header.sequences) {
    if (one.row_count > 0 && one.row_begin != rows_before) {
      return InvalidArgumentError("Frame: rows of sequence {} begin at {}, {} rows lie before", one.sequence,
                                  one.row_begin, rows_before);
    }
    if (one.num_drafted > one.row_count) {
      return InvalidArgumentError("Frame: sequence {} has {} drafts in {} rows", one.sequence,
                                  one.num_drafted, one.row_count);
    }
    rows_before += one.row_count;
  }
  if (rows_before != header.rows.size()) {
    return InvalidArgumentError("Frame: its sequences own {} rows, it has {}", rows_before,
                                header.rows.size());
  }
  for (size_t i = 0; i < header.rows.size(); ++i) RETURN_IF_ERROR(CheckRow(header, i));
  return CheckDistinct("Frame", header.sequences);
}

}  // namespace paceline
