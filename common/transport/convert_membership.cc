#include "common/transport/wire_convert.h"

namespace paceline {

std::string WireReader::Text(const flatbuffers::String* in) {
  if (in == nullptr || !Take(in->size())) return {};
  std::string text = in->str();
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return text;
}

namespace convert {

Status SameCount(const char* what, size_t first, size_t second) {
  if (first == second) return OkStatus();
  return InvalidArgumentError("{}: columns of {} and {} entries, they must be equally long", what, first,
                              second);
}

namespace {

// Appended here, appended there, and in message_check.cc.
static_assert(static_cast<int>(wire::Role::MAX) == static_cast<int>(Role::kDrafter));
static_assert(static_cast<int>(wire::ReplayState::MAX) == static_cast<int>(ReplayState::kGone));

Offset<wire::LogSource> Source(FlatBufferBuilder& builder, const LogSource& in) {
  const auto& [incarnation, publish, replay] = in;
  const auto publish_text = Text(builder, publish);
  const auto replay_text = Text(builder, replay);
  return wire::CreateLogSource(builder, incarnation.value(), publish_text, replay_text);
}

LogSource Source(WireReader& reader, const wire::LogSource* in) {
  if (in == nullptr) return {};
  return {.incarnation = Incarnation(in->incarnation()),
          .publish = reader.Text(in->publish()),
          .replay = reader.Text(in->replay())};
}

}  // namespace
}  // namespace convert

using namespace convert;  // NOLINT: this file is the conversion

Offset<wire::Hello> ToWire(FlatBufferBuilder& builder, const Hello& in) {
  const auto& [worker, fingerprint, endpoints, host, pid, kv_blocks, kv_block_size] = in;
  const auto& [role, rank, boot_nonce] = worker;
  const auto& [major, minor, build_id, model_digest, tokenizer_digest, dtype, numerics_class, pipeline_size,
               tensor_size, num_layers, layers_per_stage] = fingerprint;
  const auto& [log_publish, log_replay, tensor_listen] = endpoints;
  const auto build_text = Text(builder, build_id);
  const auto model_text = Text(builder, model_digest);
  const auto tokenizer_text = Text(builder, tokenizer_digest);
  const auto dtype_text = Text(builder, dtype);
  const auto class_text = Text(builder, numerics_class);
  const auto layers = List(builder, layers_per_stage);
  const auto publish_text = Text(builder, log_publish);
  const auto replay_text = Text(builder, log_replay);
  const auto tensor_text = Text(builder, tensor_listen);
  const auto host_text = Text(builder, host);
  return wire::CreateHello(builder, static_cast<wire::Role>(role), rank, boot_nonce, major, minor, build_text,
                           model_text, tokenizer_text, dtype_text, class_text, pipeline_size, tensor_size,
                           num_layers, layers, publish_text, replay_text, tensor_text, host_text, pid,
                           kv_blocks, kv_block_size);
}

StatusOr<Hello> FromWire(WireReader& reader, const wire::Hello& in) {
  Hello out;
  out.worker = {.role = static_cast<Role>(in.role()), .rank = in.rank(), .boot_nonce = in.boot_nonce()};
  out.fingerprint = {.protocol_major = in.protocol_major(),
                     .protocol_minor = in.protocol_minor(),
                     .build_id = reader.Text(in.build_id()),
                     .model_digest = reader.Text(in.model_digest()),
                     .tokenizer_digest = reader.Text(in.tokenizer_digest()),
                     .dtype = reader.Text(in.dtype()),
                     .numerics_class = reader.Text(in.numerics_class()),
                     .pipeline_size = in.pipeline_size(),
                     .tensor_size = in.tensor_size(),
                     .num_layers = in.num_layers(),
                     .layers_per_stage = reader.List(in.layers_per_stage())};
  out.endpoints = {.log_publish = reader.Text(in.log_publish()),
                   .log_replay = reader.Text(in.log_replay()),
                   .tensor_listen = reader.Text(in.tensor_listen())};
  out.host = reader.Text(in.host());
  out.pid = in.pid();
  out.kv_blocks = in.kv_blocks();
  out.kv_block_size = in.kv_block_size();
  return out;
}

Offset<wire::Refusal> ToWire(FlatBufferBuilder& builder, const Refusal& in) {
  const auto& [reason, exit_code] = in;
  return wire::CreateRefusal(builder, Text(builder, reason), exit_code);
}

StatusOr<Refusal> FromWire(WireReader& reader, const wire::Refusal& in) {
  return Refusal{.reason = reader.Text(in.reason()), .exit_code = in.exit_code()};
}

Offset<wire::Reconfigure> ToWire(FlatBufferBuilder& builder, const Reconfigure& in) {
  const auto& [generation, num_stages, kv_blocks, kv_block_size, num_slots, launch_window, rows_max,
               draft_len_max, next_stage_tensor_listen, verdicts, proposals] = in;
  const auto next = Text(builder, next_stage_tensor_listen);
  const auto verdict_source = Source(builder, verdicts);
  const auto proposal_source = Source(builder, proposals);
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateReconfigure(builder, &wire_generation, num_stages, kv_blocks, kv_block_size, num_slots,
                                 launch_window, rows_max, draft_len_max, next, verdict_source,
                                 proposal_source);
}

StatusOr<Reconfigure> FromWire(WireReader& reader, const wire::Reconfigure& in) {
  return Reconfigure{.generation = Plain(in.generation()),
                     .num_stages = in.num_stages(),
                     .kv_blocks = in.kv_blocks(),
                     .kv_block_size = in.kv_block_size(),
                     .num_slots = in.num_slots(),
                     .launch_window = in.launch_window(),
                     .rows_max = in.rows_max(),
                     .draft_len_max = in.draft_len_max(),
                     .next_stage_tensor_listen = reader.Text(in.next_stage_tensor_listen()),
                     .verdicts = Source(reader, in.verdicts()),
                     .proposals = Source(reader, in.proposals())};
}

Offset<wire::ReconfigureDone> ToWire(FlatBufferBuilder& builder, const ReconfigureDone& in) {
  const auto& [generation] = in;
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateReconfigureDone(builder, &wire_generation);
}

StatusOr<ReconfigureDone> FromWire(WireReader&, const wire::ReconfigureDone& in) {
  return ReconfigureDone{.generation = Plain(in.generation())};
}

Offset<wire::Probe> ToWire(FlatBufferBuilder& builder, const Probe& in) {
  const auto& [generation, incarnation] = in;
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateProbe(builder, &wire_generation, incarnation.value());
}

StatusOr<Probe> FromWire(WireReader&, const wire::Probe& in) {
  return Probe{.generation = Plain(in.generation()), .incarnation = Incarnation(in.incarnation())};
}

Offset<wire::ProbeSeen> ToWire(FlatBufferBuilder& builder, const ProbeSeen& in) {
  const auto& [generation, incarnation] = in;
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateProbeSeen(builder, &wire_generation, incarnation.value());
}

StatusOr<ProbeSeen> FromWire(WireReader&, const wire::ProbeSeen& in) {
  return ProbeSeen{.generation = Plain(in.generation()), .incarnation = Incarnation(in.incarnation())};
}

Offset<wire::DrafterChange> ToWire(FlatBufferBuilder& builder, const DrafterChange& in) {
  const auto& [generation, proposals] = in;
  const auto source = Source(builder, proposals);
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateDrafterChange(builder, &wire_generation, source);
}

StatusOr<DrafterChange> FromWire(WireReader& reader, const wire::DrafterChange& in) {
  return DrafterChange{.generation = Plain(in.generation()), .proposals = Source(reader, in.proposals())};
}

Offset<wire::Goodbye> ToWire(FlatBufferBuilder& builder, const Goodbye& in) {
  const auto& [reason] = in;
  return wire::CreateGoodbye(builder, Text(builder, reason));
}

StatusOr<Goodbye> FromWire(WireReader& reader, const wire::Goodbye& in) {
  return Goodbye{.reason = reader.Text(in.reason())};
}

Offset<wire::Heartbeat> ToWire(FlatBufferBuilder& builder, const Heartbeat& in) {
  const auto& [generation, steps_done, step_running, phase, busy_micros, idle_micros] = in;
  const auto phase_text = Text(builder, phase);
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateHeartbeat(builder, &wire_generation, steps_done, step_running.value(), phase_text,
                               busy_micros, idle_micros);
}

StatusOr<Heartbeat> FromWire(WireReader& reader, const wire::Heartbeat& in) {
  return Heartbeat{.generation = Plain(in.generation()),
                   .steps_done = in.steps_done(),
                   .step_running = StepId(in.step_running()),
                   .phase = reader.Text(in.phase()),
                   .busy_micros = in.busy_micros(),
                   .idle_micros = in.idle_micros()};
}

Offset<wire::ReplayRequest> ToWire(FlatBufferBuilder& builder, const ReplayRequest& in) {
  const auto& [generation, step] = in;
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateReplayRequest(builder, &wire_generation, step.value());
}

StatusOr<ReplayRequest> FromWire(WireReader&, const wire::ReplayRequest& in) {
  return ReplayRequest{.generation = Plain(in.generation()), .step = StepId(in.step())};
}

Offset<wire::ReplayAnswer> ToWire(FlatBufferBuilder& builder, const ReplayAnswer& in) {
  const auto& [generation, step, incarnation, state] = in;
  const wire::Generation wire_generation = Wire(generation);
  return wire::CreateReplayAnswer(builder, &wire_generation, step.value(), incarnation.value(),
                                  static_cast<wire::ReplayState>(state));
}

StatusOr<ReplayAnswer> FromWire(WireReader&, const wire::ReplayAnswer& in) {
  return ReplayAnswer{.generation = Plain(in.generation()),
                      .step = StepId(in.step()),
                      .incarnation = Incarnation(in.incarnation()),
                      .state = static_cast<ReplayState>(in.state())};
}

}  // namespace paceline
