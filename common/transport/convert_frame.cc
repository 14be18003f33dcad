#include "common/transport/wire_convert.h"

namespace paceline {

using namespace convert;  // NOLINT: this file is the conversion

namespace {

Offset<wire::FrameSequence> Sequence(FlatBufferBuilder& builder, const FrameSequence& in) {
  const auto& [sequence, lineage, row_begin, row_count, num_drafted, draws, live] = in;
  const wire::Lineage wire_lineage = Wire(lineage);
  return wire::CreateFrameSequence(builder, sequence.value(), &wire_lineage, row_begin, row_count,
                                   num_drafted, draws, live);
}

FrameSequence Sequence(const wire::FrameSequence& in) {
  return {.sequence = SequenceId(in.sequence()),
          .lineage = Plain(in.lineage()),
          .row_begin = in.row_begin(),
          .row_count = in.row_count(),
          .num_drafted = in.num_drafted(),
          .draws = in.draws(),
          .live = in.live()};
}

// A row that grows a field fails here, not silently in the columns below.
[[maybe_unused]] void EveryFieldHasAColumn(const FrameRow& row) {
  [[maybe_unused]] const auto& [id, position, slot, parent] = row;
}

}  // namespace

Offset<wire::Frame> ToWire(FlatBufferBuilder& builder, const FrameHeader& in) {
  const auto& [generation, step, slot, sequences, rows, digest, hidden_size, payload_checksum] = in;
  const auto list = Tables<wire::FrameSequence>(
      builder, sequences, [](FlatBufferBuilder& to, const FrameSequence& one) { return Sequence(to, one); });
  const auto ids = Column<int32_t>(builder, rows, [](const FrameRow& row) { return row.id; });
  const auto positions = Column<uint32_t>(builder, rows, [](const FrameRow& row) { return row.position; });
  const auto slots = Column<uint32_t>(builder, rows, [](const FrameRow& row) { return row.slot; });
  const auto parents = Column<int32_t>(builder, rows, [](const FrameRow& row) { return row.parent; });
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateFrame(builder, &wire_generation, step.value(), slot, list, ids, positions, slots,
                           parents, digest, hidden_size, payload_checksum);
}

StatusOr<FrameHeader> FromWire(WireReader&, const wire::Frame& in) {
  const size_t num_rows = Count(in.row_ids());
  RETURN_IF_ERROR(SameCount("Frame.row_positions", num_rows, Count(in.row_positions())));
  RETURN_IF_ERROR(SameCount("Frame.row_slots", num_rows, Count(in.row_slots())));
  RETURN_IF_ERROR(SameCount("Frame.row_parents", num_rows, Count(in.row_parents())));
  FrameHeader out;
  out.generation = Plain(in.generation());
  out.step = StepId(in.step());
  out.slot = in.slot();
  for (size_t i = 0; i < Count(in.sequences()); ++i) {
    out.sequences.push_back(Sequence(*in.sequences()->Get(i)));
  }
  out.rows.reserve(num_rows);
  for (size_t i = 0; i < num_rows; ++i) {
    out.rows.push_back({.id = in.row_ids()->Get(i),
                        .position = in.row_positions()->Get(i),
                        .slot = in.row_slots()->Get(i),
                        .parent = in.row_parents()->Get(i)});
  }
  out.digest = in.digest();
  out.hidden_size = in.hidden_size();
  out.payload_checksum = in.payload_checksum();
  return out;
}

}  // namespace paceline
