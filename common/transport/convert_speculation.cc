#include "common/transport/wire_convert.h"

namespace paceline {

using namespace convert;  // NOLINT: this file is the conversion

namespace {

// Appended here, appended there, and in message_check.cc.
static_assert(static_cast<int>(wire::RowFailure::MAX) == static_cast<int>(RowFailure::kNothingAllowed));

Offset<wire::SequenceProposal> Sequence(FlatBufferBuilder& builder, const SequenceProposal& in) {
  const auto& [sequence, lineage, base, base_digest, ids, parents] = in;
  const auto id_list = List(builder, ids);
  const auto parent_list = List(builder, parents);
  const wire::Lineage wire_lineage = Wire(lineage);
  return wire::CreateSequenceProposal(builder, sequence.value(), &wire_lineage, base, base_digest, id_list,
                                      parent_list);
}

SequenceProposal Sequence(WireReader& reader, const wire::SequenceProposal& in) {
  return {.sequence = SequenceId(in.sequence()),
          .lineage = Plain(in.lineage()),
          .base = in.base_pos(),
          .base_digest = in.base_digest(),
          .ids = reader.List(in.ids()),
          .parents = reader.List(in.parents())};
}

// The top lists of all ids, one after the other.
std::vector<std::pair<TokenId, float>> JoinTops(const std::vector<TokenLogprobs>& logprobs) {
  std::vector<std::pair<TokenId, float>> joined;
  for (const TokenLogprobs& token : logprobs) joined.insert(joined.end(), token.top.begin(), token.top.end());
  return joined;
}

Offset<wire::SequenceVerdict> Sequence(FlatBufferBuilder& builder, const SequenceVerdict& in) {
  const auto& [sequence, lineage, live, first_position, ids, logprobs, num_drafted, num_accepted, rows_end,
               failure] = in;
  const auto tops = JoinTops(logprobs);
  const auto id_list = List(builder, ids);
  const auto values =
      Column<float>(builder, logprobs, [](const TokenLogprobs& token) { return token.logprob; });
  const auto ranks =
      Column<uint32_t>(builder, logprobs, [](const TokenLogprobs& token) { return token.rank; });
  const auto counts = Column<uint32_t>(
      builder, logprobs, [](const TokenLogprobs& token) { return static_cast<uint32_t>(token.top.size()); });
  const auto top_ids = Column<int32_t>(builder, tops, [](const auto& top) { return top.first; });
  const auto top_values = Column<float>(builder, tops, [](const auto& top) { return top.second; });
  const wire::Lineage wire_lineage = Wire(lineage);
  return wire::CreateSequenceVerdict(builder, sequence.value(), &wire_lineage, live, first_position, id_list,
                                     values, ranks, counts, top_ids, top_values, num_drafted, num_accepted,
                                     rows_end, static_cast<wire::RowFailure>(failure));
}

StatusOr<std::vector<TokenLogprobs>> Logprobs(WireReader& reader, const wire::SequenceVerdict& in) {
  const size_t count = Count(in.logprobs());
  RETURN_IF_ERROR(SameCount("SequenceVerdict.ranks", count, Count(in.ranks())));
  RETURN_IF_ERROR(SameCount("SequenceVerdict.top_counts", count, Count(in.top_counts())));
  RETURN_IF_ERROR(SameCount("SequenceVerdict.top", Count(in.top_ids()), Count(in.top_logprobs())));
  const auto values = reader.List(in.logprobs());
  const auto ranks = reader.List(in.ranks());
  const auto top_counts = reader.List(in.top_counts());
  const auto top_ids = reader.List(in.top_ids());
  const auto top_values = reader.List(in.top_logprobs());
  std::vector<TokenLogprobs> out(count);
  if (reader.overdrawn()) return out;  // the lists are not whole; Decode refuses the message
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    out[i].logprob = values[i];
    out[i].rank = ranks[i];
    if (top_counts[i] > top_ids.size() - next) {
      return InvalidArgumentError("SequenceVerdict.top_counts: id {} claims {} entries, {} are left", i,
                                  top_counts[i], top_ids.size() - next);
    }
    for (const size_t end = next + top_counts[i]; next < end; ++next) {
      out[i].top.emplace_back(top_ids[next], top_values[next]);
    }
  }
  RETURN_IF_ERROR(SameCount("SequenceVerdict.top_counts total", next, Count(in.top_ids())));
  return out;
}

StatusOr<SequenceVerdict> Sequence(WireReader& reader, const wire::SequenceVerdict& in) {
  SequenceVerdict out;
  out.sequence = SequenceId(in.sequence());
  out.lineage = Plain(in.lineage());
  out.live = in.live();
  out.first_position = in.first_pos();
  out.ids = reader.List(in.ids());
  ASSIGN_OR_RETURN(out.logprobs, Logprobs(reader, in));
  out.num_drafted = in.num_drafted();
  out.num_accepted = in.num_accepted();
  out.rows_end = in.rows_end_pos();
  out.failure = static_cast<RowFailure>(in.failure());
  return out;
}

}  // namespace

Offset<wire::Proposal> ToWire(FlatBufferBuilder& builder, const Proposal& in) {
  const auto& [generation, step, incarnation, log_sequence, sequences, draft_micros] = in;
  const auto list = Tables<wire::SequenceProposal>(
      builder, sequences,
      [](FlatBufferBuilder& to, const SequenceProposal& one) { return Sequence(to, one); });
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateProposal(builder, &wire_generation, step.value(), incarnation.value(), log_sequence,
                              list, draft_micros);
}

StatusOr<Proposal> FromWire(WireReader& reader, const wire::Proposal& in) {
  Proposal out;
  out.generation = Plain(in.generation());
  out.step = StepId(in.step());
  out.incarnation = Incarnation(in.incarnation());
  out.log_sequence = in.log_sequence();
  for (size_t i = 0; i < Count(in.sequences()); ++i) {
    out.sequences.push_back(Sequence(reader, *in.sequences()->Get(i)));
  }
  out.draft_micros = in.draft_micros();
  return out;
}

Offset<wire::Verdict> ToWire(FlatBufferBuilder& builder, const Verdict& in) {
  const auto& [generation, step, incarnation, log_sequence, sequences, compute_micros] = in;
  const auto list = Tables<wire::SequenceVerdict>(
      builder, sequences,
      [](FlatBufferBuilder& to, const SequenceVerdict& one) { return Sequence(to, one); });
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateVerdict(builder, &wire_generation, step.value(), incarnation.value(), log_sequence, list,
                             compute_micros);
}

StatusOr<Verdict> FromWire(WireReader& reader, const wire::Verdict& in) {
  Verdict out;
  out.generation = Plain(in.generation());
  out.step = StepId(in.step());
  out.incarnation = Incarnation(in.incarnation());
  out.log_sequence = in.log_sequence();
  for (size_t i = 0; i < Count(in.sequences()); ++i) {
    ASSIGN_OR_RETURN(SequenceVerdict one, Sequence(reader, *in.sequences()->Get(i)));
    out.sequences.push_back(std::move(one));
  }
  out.compute_micros = in.compute_micros();
  return out;
}

}  // namespace paceline
