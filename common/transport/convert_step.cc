#include <algorithm>

#include "common/transport/wire_convert.h"

namespace paceline {

using namespace convert;  // NOLINT: this file is the conversion

namespace {

Offset<wire::SequencePlan> Plan(FlatBufferBuilder& builder, const SequencePlan& in) {
  const auto& [sequence, lineage, start, known_ids, continuation, awaits_proposal, draft_len_max, draws,
               blocks, moves] = in;
  const auto& [len_before, appended] = blocks;
  const auto ids = List(builder, known_ids);
  const auto blocks_appended = Column<uint32_t>(builder, appended, [](BlockId id) { return id.value(); });
  const auto from = Column<uint32_t>(builder, moves, [](const KvMove& move) { return move.from; });
  const auto to = Column<uint32_t>(builder, moves, [](const KvMove& move) { return move.to; });
  const wire::Lineage wire_lineage = Wire(lineage);
  return wire::CreateSequencePlan(builder, sequence.value(), &wire_lineage, start, ids, continuation,
                                  awaits_proposal, draft_len_max, draws, len_before, blocks_appended, from,
                                  to);
}

StatusOr<SequencePlan> Plan(WireReader& reader, const wire::SequencePlan& in) {
  RETURN_IF_ERROR(SameCount("SequencePlan.moves", Count(in.moves_from()), Count(in.moves_to())));
  SequencePlan out;
  out.sequence = SequenceId(in.sequence());
  out.lineage = Plain(in.lineage());
  out.start = in.start_pos();
  out.known_ids = reader.List(in.known_ids());
  out.continuation = in.continuation();
  out.awaits_proposal = in.awaits_proposal();
  out.draft_len_max = in.draft_len_max();
  out.draws = in.draws();
  out.blocks.len_before = in.blocks_len_before();
  for (const uint32_t block : reader.List(in.blocks_appended())) {
    out.blocks.appended.push_back(BlockId(block));
  }
  const auto from = reader.List(in.moves_from());
  const auto to = reader.List(in.moves_to());
  for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) out.moves.push_back({from[i], to[i]});
  return out;
}

Offset<wire::SamplingParams> Sampling(FlatBufferBuilder& builder, const SamplingParams& in) {
  const auto& [temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, repetition_penalty,
               logit_bias, allowed_token_ids, bad_words, stop_token_ids, eos_token_ids, ignore_eos,
               min_tokens, max_tokens, logprobs, seed, choice] = in;
  const auto bias_ids = Column<int32_t>(builder, logit_bias, [](const auto& bias) { return bias.first; });
  const auto bias_values = Column<float>(builder, logit_bias, [](const auto& bias) { return bias.second; });
  const auto allowed = List(builder, allowed_token_ids);
  const auto words =
      Tables<wire::IdList>(builder, bad_words, [](FlatBufferBuilder& to, const std::vector<TokenId>& ids) {
        return wire::CreateIdList(to, List(to, ids));
      });
  const auto stops = List(builder, stop_token_ids);
  const auto ends = List(builder, eos_token_ids);
  return wire::CreateSamplingParams(builder, temperature, top_p, top_k, min_p, presence_penalty,
                                    frequency_penalty, repetition_penalty, bias_ids, bias_values, allowed,
                                    words, stops, ends, ignore_eos, min_tokens, max_tokens, logprobs, seed,
                                    choice);
}

StatusOr<SamplingParams> Sampling(WireReader& reader, const wire::SamplingParams& in) {
  RETURN_IF_ERROR(
      SameCount("SamplingParams.logit_bias", Count(in.logit_bias_ids()), Count(in.logit_bias_values())));
  SamplingParams out;
  out.temperature = in.temperature();
  out.top_p = in.top_p();
  out.top_k = in.top_k();
  out.min_p = in.min_p();
  out.presence_penalty = in.presence_penalty();
  out.frequency_penalty = in.frequency_penalty();
  out.repetition_penalty = in.repetition_penalty();
  const auto bias_ids = reader.List(in.logit_bias_ids());
  const auto bias_values = reader.List(in.logit_bias_values());
  for (size_t i = 0; i < std::min(bias_ids.size(), bias_values.size()); ++i) {
    out.logit_bias.emplace_back(bias_ids[i], bias_values[i]);
  }
  out.allowed_token_ids = reader.List(in.allowed_token_ids());
  for (size_t i = 0; i < Count(in.bad_words()); ++i) {
    out.bad_words.push_back(reader.List(in.bad_words()->Get(i)->ids()));
  }
  out.stop_token_ids = reader.List(in.stop_token_ids());
  out.eos_token_ids = reader.List(in.eos_token_ids());
  out.ignore_eos = in.ignore_eos();
  out.min_tokens = in.min_tokens();
  out.max_tokens = in.max_tokens();
  out.logprobs = in.logprobs();
  out.seed = in.seed();
  out.choice = in.choice();
  return out;
}

}  // namespace

Offset<wire::StepPlan> ToWire(FlatBufferBuilder& builder, const StepPlan& in) {
  const auto& [generation, step, slot, sequences] = in;
  const auto plans = Tables<wire::SequencePlan>(
      builder, sequences, [](FlatBufferBuilder& to, const SequencePlan& plan) { return Plan(to, plan); });
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateStepPlan(builder, &wire_generation, step.value(), slot, plans);
}

StatusOr<StepPlan> FromWire(WireReader& reader, const wire::StepPlan& in) {
  StepPlan out{
      .generation = Plain(in.generation()), .step = StepId(in.step()), .slot = in.slot(), .sequences = {}};
  for (size_t i = 0; i < Count(in.sequences()); ++i) {
    ASSIGN_OR_RETURN(SequencePlan plan, Plan(reader, *in.sequences()->Get(i)));
    out.sequences.push_back(std::move(plan));
  }
  return out;
}

Offset<wire::PlanRequest> ToWire(FlatBufferBuilder& builder, const PlanRequest& in) {
  const auto& [generation, step] = in;
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreatePlanRequest(builder, &wire_generation, step.value());
}

StatusOr<PlanRequest> FromWire(WireReader&, const wire::PlanRequest& in) {
  return PlanRequest{.generation = Plain(in.generation()), .step = StepId(in.step())};
}

Offset<wire::Launched> ToWire(FlatBufferBuilder& builder, const Launched& in) {
  const auto& [generation, step, without_proposal] = in;
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateLaunched(builder, &wire_generation, step.value(), without_proposal);
}

StatusOr<Launched> FromWire(WireReader&, const wire::Launched& in) {
  return Launched{.generation = Plain(in.generation()),
                  .step = StepId(in.step()),
                  .without_proposal = in.without_proposal()};
}

Offset<wire::Admission> ToWire(FlatBufferBuilder& builder, const Admission& in) {
  const auto& [generation, sequence, lineage, ids, prompt_len, sampling, verdict_log_sequence] = in;
  const auto id_list = List(builder, ids);
  const auto params = Sampling(builder, sampling);
  const wire::Generation wire_generation = Wire(generation);
  const wire::Lineage wire_lineage = Wire(lineage);
  return wire::CreateAdmission(builder, &wire_generation, sequence.value(), &wire_lineage, id_list,
                               prompt_len, params, verdict_log_sequence);
}

StatusOr<Admission> FromWire(WireReader& reader, const wire::Admission& in) {
  Admission out;
  out.generation = Plain(in.generation());
  out.sequence = SequenceId(in.sequence());
  out.lineage = Plain(in.lineage());
  out.ids = reader.List(in.ids());
  out.prompt_len = in.prompt_len();
  if (in.sampling() != nullptr) {
    ASSIGN_OR_RETURN(out.sampling, Sampling(reader, *in.sampling()));
  }
  out.verdict_log_sequence = in.verdict_log_sequence();
  return out;
}

Offset<wire::Release> ToWire(FlatBufferBuilder& builder, const Release& in) {
  const auto& [generation, sequence, coordinator_counter] = in;
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateRelease(builder, &wire_generation, sequence.value(), coordinator_counter);
}

StatusOr<Release> FromWire(WireReader&, const wire::Release& in) {
  return Release{.generation = Plain(in.generation()),
                 .sequence = SequenceId(in.sequence()),
                 .coordinator_counter = in.coordinator_counter()};
}

Offset<wire::Cancel> ToWire(FlatBufferBuilder& builder, const Cancel& in) {
  const auto& [generation, sequence, lineage] = in;
  const wire::Generation wire_generation = Wire(generation);
  const wire::Lineage wire_lineage = Wire(lineage);
  return wire::CreateCancel(builder, &wire_generation, sequence.value(), &wire_lineage);
}

StatusOr<Cancel> FromWire(WireReader&, const wire::Cancel& in) {
  return Cancel{.generation = Plain(in.generation()),
                .sequence = SequenceId(in.sequence()),
                .lineage = Plain(in.lineage())};
}

}  // namespace paceline
