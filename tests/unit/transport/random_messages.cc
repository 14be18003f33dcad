#include "tests/unit/transport/random_messages.h"

#include <variant>

namespace paceline::testing {

std::string RandomMessages::Text() {
  std::string text(Below(40), ' ');
  for (char& c : text) c = static_cast<char>(' ' + Below(95));
  return text;
}

float RandomMessages::Number(float low, float high) {
  return low + (high - low) * static_cast<float>(Below(1u << 20)) / static_cast<float>(1u << 20);
}

std::vector<TokenId> RandomMessages::Ids(uint64_t count_max) {
  std::vector<TokenId> ids(Below(count_max + 1));
  for (TokenId& id : ids) id = static_cast<TokenId>(Below(200000));
  return ids;
}

Generation RandomMessages::AnyGeneration() { return {.coordinator_nonce = Any(), .counter = Any32()}; }
Lineage RandomMessages::AnyLineage() { return {.coordinator = Any32(), .last_stage = Any32()}; }

LogSource RandomMessages::Source() {
  return {.incarnation = Incarnation(Any()), .publish = Text(), .replay = Text()};
}

Hello RandomMessages::MakeHello() {
  Hello hello;
  hello.worker = {.role = Coin() ? Role::kStage : Role::kDrafter,
                  .rank = static_cast<uint32_t>(Below(1000)),
                  .boot_nonce = Any()};
  hello.fingerprint = {.protocol_major = static_cast<uint16_t>(Any()),
                       .protocol_minor = static_cast<uint16_t>(Any()),
                       .build_id = Text(),
                       .model_digest = Text(),
                       .tokenizer_digest = Text(),
                       .dtype = Text(),
                       .numerics_class = Text(),
                       .pipeline_size = Any32(),
                       .tensor_size = Any32(),
                       .num_layers = Any32(),
                       .layers_per_stage = {Any32(), Any32(), Any32()}};
  hello.endpoints = {.log_publish = Text(), .log_replay = Text(), .tensor_listen = Text()};
  hello.host = Text();
  hello.pid = Any32();
  hello.kv_blocks = Any32();
  hello.kv_block_size = Any32();
  return hello;
}

Reconfigure RandomMessages::MakeReconfigure() {
  return {.generation = AnyGeneration(),
          .num_stages = 1 + static_cast<uint32_t>(Below(100)),
          .kv_blocks = Any32(),
          .kv_block_size = Any32(),
          .num_slots = 1 + static_cast<uint32_t>(Below(100)),
          .launch_window = 1 + static_cast<uint32_t>(Below(100)),
          .rows_max = Any32(),
          .draft_len_max = Any32(),
          .next_stage_tensor_listen = Text(),
          .verdicts = Source(),
          .proposals = Source()};
}

SamplingParams RandomMessages::Sampling() {
  SamplingParams params;
  params.temperature = Number(0, 2);
  params.top_p = Number(0.01f, 1);
  params.top_k = static_cast<int32_t>(Below(100));
  params.min_p = Number(0, 1);
  params.presence_penalty = Number(-2, 2);
  params.frequency_penalty = Number(-2, 2);
  params.repetition_penalty = Number(0.1f, 2);
  for (const TokenId id : Ids(5)) params.logit_bias.emplace_back(id, Number(-100, 100));
  params.allowed_token_ids = Ids(5);
  for (uint64_t i = Below(4); i > 0; --i) params.bad_words.push_back(Ids(3));
  params.stop_token_ids = Ids(5);
  params.eos_token_ids = Ids(3);
  params.ignore_eos = Coin();
  params.min_tokens = Any32();
  params.max_tokens = Any32();
  params.logprobs = static_cast<int32_t>(Below(22)) - 1;
  params.seed = Any();
  params.choice = Any32();
  return params;
}

Admission RandomMessages::MakeAdmission() {
  Admission admission{.generation = AnyGeneration(),
                      .sequence = SequenceId(Any()),
                      .lineage = AnyLineage(),
                      .ids = Ids(300),
                      .prompt_len = 0,
                      .sampling = Sampling(),
                      .verdict_log_sequence = Any()};
  admission.prompt_len = static_cast<uint32_t>(Below(admission.ids.size() + 1));
  return admission;
}

StepPlan RandomMessages::MakePlan() {
  StepPlan plan{.generation = AnyGeneration(), .step = Step(), .slot = Any32(), .sequences = {}};
  for (uint64_t i = Below(6); i > 0; --i) {
    SequencePlan one;
    one.sequence = SequenceId(Any());
    one.lineage = AnyLineage();
    one.start = static_cast<Position>(Below(100000));
    one.known_ids = Ids(40);
    one.continuation = one.known_ids.empty() || Coin();
    one.awaits_proposal = Coin();
    one.draft_len_max = static_cast<uint32_t>(Below(129));
    one.draws = Coin();
    one.blocks.len_before = static_cast<uint32_t>(Below(1000));
    for (uint64_t blocks = Below(5); blocks > 0; --blocks) one.blocks.appended.push_back(BlockId(Any32()));
    for (uint64_t moves = Below(4); moves > 0; --moves) one.moves.push_back({.from = Any32(), .to = Any32()});
    plan.sequences.push_back(std::move(one));
  }
  return plan;
}

Proposal RandomMessages::MakeProposal() {
  Proposal proposal;
  proposal.generation = AnyGeneration();
  proposal.step = Step();
  proposal.incarnation = Incarnation(Any());
  proposal.log_sequence = Any();
  proposal.draft_micros = Any32();
  for (uint64_t i = Below(6); i > 0; --i) {
    SequenceProposal one{.sequence = SequenceId(Any()),
                         .lineage = AnyLineage(),
                         .base = static_cast<Position>(Below(100000)),
                         .base_digest = Any(),
                         .ids = Ids(20),
                         .parents = {}};
    if (Coin()) {
      for (uint64_t id = 0; id < one.ids.size(); ++id) {
        one.parents.push_back(static_cast<int32_t>(Below(id + 1)) - 1);
      }
    }
    proposal.sequences.push_back(std::move(one));
  }
  return proposal;
}

SequenceVerdict RandomMessages::OneVerdict(SequenceId sequence) {
  SequenceVerdict one;
  one.sequence = sequence;
  one.lineage = AnyLineage();
  one.live = Coin();
  one.first_position = static_cast<Position>(Below(100000));
  one.ids = Ids(9);
  if (Coin()) {
    for (size_t i = 0; i < one.ids.size(); ++i) {
      TokenLogprobs token{.logprob = Number(-20, 0), .rank = Any32(), .top = {}};
      for (const TokenId id : Ids(4)) token.top.emplace_back(id, Number(-20, 0));
      one.logprobs.push_back(std::move(token));
    }
  }
  one.num_drafted = static_cast<uint32_t>(Below(129));
  one.num_accepted = static_cast<uint32_t>(Below(one.num_drafted + 1));
  one.rows_end = Any32();
  one.failure = static_cast<RowFailure>(Below(3));
  return one;
}

Verdict RandomMessages::MakeVerdict() {
  Verdict verdict;
  verdict.generation = AnyGeneration();
  verdict.step = Step();
  verdict.incarnation = Incarnation(Any());
  verdict.log_sequence = Any();
  verdict.compute_micros = Any32();
  for (uint64_t i = Below(6); i > 0; --i) verdict.sequences.push_back(OneVerdict(SequenceId(Any())));
  return verdict;
}

WireMessage RandomMessages::Make(size_t kind) {
  const std::vector<WireMessage> all = {
      MakeHello(),
      Refusal{.reason = Text(), .exit_code = static_cast<int32_t>(Any())},
      MakeReconfigure(),
      ReconfigureDone{.generation = AnyGeneration()},
      Probe{.generation = AnyGeneration(), .incarnation = Incarnation(Any())},
      ProbeSeen{.generation = AnyGeneration(), .incarnation = Incarnation(Any())},
      DrafterChange{.generation = AnyGeneration(), .proposals = Source()},
      Goodbye{.reason = Text()},
      Heartbeat{.generation = AnyGeneration(),
                .steps_done = Any(),
                .step_running = StepId(Any()),
                .phase = Text(),
                .busy_micros = Any(),
                .idle_micros = Any()},
      MakeAdmission(),
      Release{.generation = AnyGeneration(), .sequence = SequenceId(Any()), .coordinator_counter = Any32()},
      Cancel{.generation = AnyGeneration(), .sequence = SequenceId(Any()), .lineage = AnyLineage()},
      MakePlan(),
      PlanRequest{.generation = AnyGeneration(), .step = StepId(Any())},
      Launched{.generation = AnyGeneration(), .step = StepId(Any()), .without_proposal = Coin()},
      MakeProposal(),
      MakeVerdict(),
      ReplayRequest{.generation = AnyGeneration(), .step = StepId(Any())},
      ReplayAnswer{.generation = AnyGeneration(),
                   .step = StepId(Any()),
                   .incarnation = Incarnation(Any()),
                   .state = Coin() ? ReplayState::kNotYet : ReplayState::kGone}};
  return all.at(kind);
}

FrameHeader RandomMessages::MakeFrame() {
  FrameHeader header;
  header.generation = AnyGeneration();
  header.step = Step();
  header.slot = Any32();
  for (uint64_t i = Below(6); i > 0; --i) {
    FrameSequence one{.sequence = SequenceId(Any()),
                      .lineage = AnyLineage(),
                      .row_begin = static_cast<uint32_t>(header.rows.size()),
                      .row_count = static_cast<uint32_t>(Below(20)),
                      .num_drafted = 0,
                      .draws = Coin(),
                      .live = Coin()};
    one.num_drafted = static_cast<uint32_t>(Below(one.row_count + 1));
    for (uint32_t row = 0; row < one.row_count; ++row) {
      const auto index = static_cast<int32_t>(header.rows.size());
      header.rows.push_back({.id = static_cast<TokenId>(Below(200000)),
                             .position = static_cast<Position>(Below(1u << 30)),
                             .slot = static_cast<Slot>(Below(1u << 30)),
                             .parent = static_cast<int32_t>(Below(static_cast<uint64_t>(index) + 1)) - 1});
    }
    header.sequences.push_back(one);
  }
  header.digest = Any();
  header.hidden_size = Any32();
  header.payload_checksum = Any();
  return header;
}

}  // namespace paceline::testing
