// Bytes that released builds wrote are read as they were meant. PACELINE_UPDATE_GOLDEN=1 writes files that
// are missing; existing ones are never changed: that is the point of them.
//
// The samples are written out, not drawn: a field that is added later is not set here, since the old bytes do
// not have it; its default must mean "an older sender".
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/transport/codec.h"
#include "tests/support/shared_data.h"

namespace paceline::testing {
namespace {

constexpr Generation kGeneration{.coordinator_nonce = 0x1122334455667788, .counter = 3};
constexpr Lineage kLineage{.coordinator = 4, .last_stage = 5};
constexpr Incarnation kIncarnation{0x99};
constexpr SequenceId kSequence{17};
constexpr StepId kStep{812};
const LogSource kSource{
    .incarnation = kIncarnation, .publish = "ipc:///run/p/log", .replay = "ipc:///run/p/replay"};

Hello SampleHello() {
  Hello hello;
  hello.worker = {.role = Role::kDrafter, .rank = 2, .boot_nonce = 0xabcdef};
  hello.fingerprint.build_id = "0.1.0-cpu";
  hello.fingerprint.model_digest = "m";
  hello.fingerprint.tokenizer_digest = "t";
  hello.fingerprint.dtype = "f32/f16";
  hello.fingerprint.numerics_class = "avx2";
  hello.fingerprint.pipeline_size = 4;
  hello.fingerprint.tensor_size = 2;
  hello.fingerprint.num_layers = 30;
  hello.fingerprint.layers_per_stage = {7, 8, 8, 7};
  hello.endpoints = {.log_publish = "a", .log_replay = "b", .tensor_listen = "unix:/c"};
  hello.host = "h";
  hello.pid = 4711;
  hello.kv_blocks = 1000;
  hello.kv_block_size = 16;
  return hello;
}

Reconfigure SampleReconfigure() {
  Reconfigure message;
  message.generation = kGeneration;
  message.num_stages = 4;
  message.kv_blocks = 900;
  message.kv_block_size = 16;
  message.num_slots = 5;
  message.launch_window = 2;
  message.rows_max = 2048;
  message.draft_len_max = 8;
  message.next_stage_tensor_listen = "tcp:10.0.0.2:4001";
  message.verdicts = kSource;
  message.proposals = {.incarnation = Incarnation(1), .publish = "p", .replay = "r"};
  return message;
}

Heartbeat SampleHeartbeat() {
  Heartbeat beat;
  beat.generation = kGeneration;
  beat.steps_done = 811;
  beat.step_running = kStep;
  beat.phase = "serving";
  beat.busy_micros = 1'000'000;
  beat.idle_micros = 2'000'000;
  return beat;
}

Admission SampleAdmission() {
  Admission admission;
  admission.generation = kGeneration;
  admission.sequence = kSequence;
  admission.lineage = kLineage;
  admission.ids = {1, 20, 300, 4000};
  admission.prompt_len = 3;
  SamplingParams& params = admission.sampling;
  params.temperature = 0.8f;
  params.top_p = 0.9f;
  params.top_k = 40;
  params.min_p = 0.05f;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = -0.5f;
  params.repetition_penalty = 1.1f;
  params.logit_bias = {{5, 1.5f}, {6, -100.0f}};
  params.allowed_token_ids = {5, 6, 7};
  params.bad_words = {{1, 2}, {3}};
  params.stop_token_ids = {9};
  params.eos_token_ids = {2};
  params.ignore_eos = true;
  params.min_tokens = 1;
  params.max_tokens = 100;
  params.logprobs = 5;
  params.seed = 42;
  params.choice = 1;
  admission.verdict_log_sequence = 77;
  return admission;
}

StepPlan SamplePlan() {
  SequencePlan chunk;
  chunk.sequence = kSequence;
  chunk.lineage = kLineage;
  chunk.start = 12;
  chunk.known_ids = {31, 32};
  chunk.awaits_proposal = true;
  chunk.draft_len_max = 3;
  chunk.draws = false;
  chunk.blocks.len_before = 3;
  chunk.blocks.appended = {BlockId(8), BlockId(9)};
  chunk.moves = {{.from = 14, .to = 13}};
  SequencePlan ahead;
  ahead.sequence = SequenceId(18);
  ahead.continuation = true;
  StepPlan plan;
  plan.generation = kGeneration;
  plan.step = kStep;
  plan.slot = 2;
  plan.sequences = {chunk, ahead};
  return plan;
}

Proposal SampleProposal() {
  SequenceProposal one;
  one.sequence = kSequence;
  one.lineage = kLineage;
  one.base = 14;
  one.base_digest = 0xfeed;
  one.ids = {7, 8, 9};
  one.parents = {-1, 0, 0};
  Proposal proposal;
  proposal.generation = kGeneration;
  proposal.step = kStep;
  proposal.incarnation = kIncarnation;
  proposal.log_sequence = 6;
  proposal.sequences = {one};
  proposal.draft_micros = 120;
  return proposal;
}

Verdict SampleVerdict() {
  SequenceVerdict one;
  one.sequence = kSequence;
  one.lineage = kLineage;
  one.first_position = 15;
  one.ids = {7, 11};
  one.logprobs = {{.logprob = -0.5f, .rank = 1, .top = {{7, -0.5f}, {3, -2.0f}}},
                  {.logprob = -1.5f, .rank = 2, .top = {}}};
  one.num_drafted = 3;
  one.num_accepted = 1;
  one.rows_end = 19;
  SequenceVerdict dead;
  dead.sequence = SequenceId(18);
  dead.live = false;
  dead.failure = RowFailure::kNotFinite;
  Verdict verdict;
  verdict.generation = kGeneration;
  verdict.step = kStep;
  verdict.incarnation = kIncarnation;
  verdict.log_sequence = 5;
  verdict.sequences = {one, dead};
  verdict.compute_micros = 913;
  return verdict;
}

std::vector<WireMessage> Samples() {
  return {SampleHello(),
          Refusal{.reason = "Hello.model_digest: a, wanted b", .exit_code = 76},
          SampleReconfigure(),
          ReconfigureDone{.generation = kGeneration},
          Probe{.generation = kGeneration, .incarnation = kIncarnation},
          ProbeSeen{.generation = kGeneration, .incarnation = kIncarnation},
          DrafterChange{.generation = kGeneration, .proposals = kSource},
          Goodbye{.reason = "stopping"},
          SampleHeartbeat(),
          SampleAdmission(),
          Release{.generation = kGeneration, .sequence = kSequence, .coordinator_counter = 4},
          Cancel{.generation = kGeneration, .sequence = kSequence, .lineage = kLineage},
          SamplePlan(),
          PlanRequest{.generation = kGeneration, .step = kStep},
          Launched{.generation = kGeneration, .step = kStep, .without_proposal = true},
          SampleProposal(),
          SampleVerdict(),
          ReplayRequest{.generation = kGeneration, .step = kStep},
          ReplayAnswer{.generation = kGeneration,
                       .step = kStep,
                       .incarnation = kIncarnation,
                       .state = ReplayState::kGone}};
}

FrameHeader SampleFrame() {
  FrameSequence live;
  live.sequence = kSequence;
  live.lineage = kLineage;
  live.row_count = 2;
  live.num_drafted = 1;
  FrameSequence dead;
  dead.sequence = SequenceId(18);
  dead.row_begin = 2;
  dead.row_count = 1;
  dead.draws = false;
  dead.live = false;
  FrameHeader header;
  header.generation = kGeneration;
  header.step = kStep;
  header.slot = 2;
  header.sequences = {live, dead};
  header.rows = {{.id = 31, .position = 12, .slot = 12, .parent = kParentPrevious},
                 {.id = 7, .position = 13, .slot = 14, .parent = 0},
                 {.id = 5, .position = 64, .slot = 64, .parent = kParentPrevious}};
  header.digest = 0xd1935;
  header.hidden_size = 576;
  header.payload_checksum = 0xc5;
  return header;
}

std::string GoldenBytes(const std::string& name, std::span<const std::byte> current) {
  const std::string path = SourceDir() + "/tests/unit/transport/golden/1.0-" + name + ".bin";
  if (!std::filesystem::exists(path) && std::getenv("PACELINE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(current.data()), static_cast<std::streamsize>(current.size()));
  }
  return ReadFileOrDie(path);
}

TEST(GoldenBytes, MessagesOfEveryKindAreStillReadAsTheyWereMeant) {
  const std::vector<WireMessage> samples = Samples();
  ASSERT_EQ(samples.size(), std::variant_size_v<WireMessage>) << "a new kind needs a sample";
  for (size_t kind = 0; kind < samples.size(); ++kind) {
    ASSERT_EQ(samples[kind].index(), kind);
    const std::string name(KindName(samples[kind]));

    const std::string bytes = GoldenBytes(name, Encode(samples[kind]));
    const auto decoded = Decode(std::as_bytes(std::span(bytes)));

    ASSERT_TRUE(decoded.ok()) << name << ": " << decoded.status();
    EXPECT_TRUE(*decoded == samples[kind]) << name;
  }
}

TEST(GoldenBytes, AFrameIsStillReadAsItWasMeant) {
  const std::string bytes = GoldenBytes("Frame", EncodeFrame(SampleFrame()));
  const auto decoded = DecodeFrame(std::as_bytes(std::span(bytes)));

  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(*decoded == SampleFrame());
}

}  // namespace
}  // namespace paceline::testing
