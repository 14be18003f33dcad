// Bytes from outside: cut, flipped, crafted. Each ends in a Status or a message that means something.
#include <flatbuffers/flatbuffers.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/transport/codec.h"
#include "common/transport/message_check.h"
#include "schemas/envelope_generated.h"
#include "schemas/frame_generated.h"
#include "tests/unit/transport/random_messages.h"

namespace paceline::testing {
namespace {

using absl::StatusCode;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using ::testing::HasSubstr;

std::vector<std::byte> BytesOf(const FlatBufferBuilder& builder) {
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {begin, begin + builder.GetSize()};
}

template <typename T>
std::vector<std::byte> Wrap(FlatBufferBuilder& builder, Offset<T> payload, uint16_t major = kProtocolMajor) {
  wire::FinishEnvelopeBuffer(
      builder, wire::CreateEnvelope(builder, major, 0, wire::PayloadTraits<T>::enum_value, payload.Union()));
  return BytesOf(builder);
}

// What survives must be a message like any other: it encodes and decodes to itself.
void ExpectSane(const StatusOr<WireMessage>& decoded) {
  if (!decoded.ok()) return;
  EXPECT_TRUE(CheckMeaning(*decoded).ok());
  EXPECT_TRUE(Decode(Encode(*decoded)).ok()) << KindName(*decoded);
}

class HostileBytesOfKind : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(EveryKind, HostileBytesOfKind, ::testing::Range(size_t{0}, kNumKinds),
                         [](const auto& param) {
                           return std::string(KindName(RandomMessages(1).Make(param.param)));
                         });

TEST_P(HostileBytesOfKind, EveryTruncationIsRefused) {
  const std::vector<std::byte> bytes = Encode(RandomMessages(3).Make(GetParam()));

  for (size_t length = 0; length < bytes.size(); ++length) {
    // A copy of exactly this length, so that a sanitizer sees a read beyond it.
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    ExpectSane(Decode(cut));
  }
  EXPECT_FALSE(Decode(std::span(bytes).first(7)).ok());
}

TEST_P(HostileBytesOfKind, FlippedBytesNeverFault) {
  RandomMessages random(GetParam() + 100);
  uint64_t refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::vector<std::byte> bytes = Encode(random.Make(GetParam()));
    for (uint64_t flips = 1 + random.Below(4); flips > 0; --flips) {
      bytes[random.Below(bytes.size())] = static_cast<std::byte>(random.Below(256));
    }
    const auto decoded = Decode(bytes);
    ExpectSane(decoded);
    refused += decoded.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 50u) << "the mutations must reach the checks";
}

TEST(HostileFrames, FlippedAndCutBytesNeverFault) {
  RandomMessages random(17);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::byte> bytes = EncodeFrame(random.MakeFrame());
    for (uint64_t flips = 1 + random.Below(4); flips > 0; --flips) {
      bytes[random.Below(bytes.size())] = static_cast<std::byte>(random.Below(256));
    }
    if (random.Coin()) bytes.resize(random.Below(bytes.size()));
    const std::vector<std::byte> exact(bytes);
    const auto decoded = DecodeFrame(exact);
    if (decoded.ok()) {
      EXPECT_TRUE(CheckMeaning(*decoded).ok());
    }
  }
}

TEST(HostileBytes, RandomOnesAreRefused) {
  RandomMessages random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> bytes(random.Below(300));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Below(256));
    EXPECT_EQ(Decode(bytes).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(DecodeFrame(bytes).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(HostileBytes, OneByteOverTheCapIsRefusedBeforeItIsRead) {
  const std::vector<std::byte> at_cap(kControlMessageBytesMax);
  const std::vector<std::byte> over(kControlMessageBytesMax + 1);

  EXPECT_EQ(Decode(at_cap).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Decode(over).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(DecodeFrame(std::vector<std::byte>(101), 100).status().code(), StatusCode::kResourceExhausted);
}

TEST(HostileBytes, AFrameIsNoMessageAndAMessageIsNoFrame) {
  EXPECT_FALSE(Decode(EncodeFrame(RandomMessages(1).MakeFrame())).ok());
  EXPECT_FALSE(DecodeFrame(Encode(Goodbye{})).ok());
}

TEST(HostileBytes, AnotherMajorIsRefusedWithBothVersions) {
  FlatBufferBuilder builder;
  const Status status = Decode(Wrap(builder, wire::CreateGoodbye(builder), 7)).status();

  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("peer speaks protocol 7.0, this build speaks 1.0"));
}

TEST(HostileBytes, AnUnknownKindIsToldApartSoThatItCanBeIgnored) {
  FlatBufferBuilder builder;
  const auto payload = wire::CreateGoodbye(builder).Union();
  wire::FinishEnvelopeBuffer(
      builder, wire::CreateEnvelope(builder, kProtocolMajor, 9, static_cast<wire::Payload>(200), payload));

  EXPECT_EQ(Decode(BytesOf(builder)).status().code(), StatusCode::kUnimplemented);
}

TEST(HostileBytes, AMessageWithoutPayloadIsRefused) {
  FlatBufferBuilder empty;
  wire::FinishEnvelopeBuffer(empty, wire::CreateEnvelope(empty, kProtocolMajor, 0));
  FlatBufferBuilder typed;
  wire::FinishEnvelopeBuffer(typed, wire::CreateEnvelope(typed, kProtocolMajor, 0, wire::Payload::StepPlan));

  EXPECT_EQ(Decode(BytesOf(empty)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Decode(BytesOf(typed)).status().code(), StatusCode::kInvalidArgument);
}

TEST(HostileBytes, MoreThan20000TablesAreRefused) {
  const auto with_tables = [](size_t count) {
    FlatBufferBuilder builder;
    const auto one = wire::CreateIdList(builder);
    const std::vector<Offset<wire::IdList>> words(count, one);
    const auto list = builder.CreateVector(words);
    wire::SamplingParamsBuilder params(builder);
    params.add_bad_words(list);
    const auto sampling = params.Finish();
    wire::AdmissionBuilder admission(builder);
    admission.add_sampling(sampling);
    return Wrap(builder, admission.Finish());
  };

  EXPECT_TRUE(Decode(with_tables(19990)).ok());
  EXPECT_FALSE(Decode(with_tables(20001)).ok());
}

// 1 MiB whose tables all point at one long vector would unfold to gigabytes.
TEST(HostileBytes, TablesThatShareOneLongVectorDoNotUnfold) {
  FlatBufferBuilder builder;
  const auto ids = builder.CreateVector(std::vector<int32_t>(200000, 1));
  const auto one = wire::CreateIdList(builder, ids);
  const auto words = builder.CreateVector(std::vector<Offset<wire::IdList>>(10000, one));
  wire::SamplingParamsBuilder params(builder);
  params.add_bad_words(words);
  const auto sampling = params.Finish();
  wire::AdmissionBuilder admission(builder);
  admission.add_sampling(sampling);

  const Status status = Decode(Wrap(builder, admission.Finish())).status();

  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("share vectors"));
}

TEST(HostileBytes, B205_EnumsOutOfRangeAreRefused) {
  FlatBufferBuilder hello;
  const auto bad_role = Wrap(hello, wire::CreateHello(hello, static_cast<wire::Role>(255)));
  FlatBufferBuilder coordinator;
  const auto own_role = Wrap(coordinator, wire::CreateHello(coordinator, wire::Role::Coordinator));
  FlatBufferBuilder answer;
  const auto bad_state =
      Wrap(answer, wire::CreateReplayAnswer(answer, nullptr, 1, 1, static_cast<wire::ReplayState>(255)));

  EXPECT_THAT(std::string(Message(Decode(bad_role).status())), HasSubstr("Hello.role: 255"));
  EXPECT_THAT(std::string(Message(Decode(own_role).status())), HasSubstr("Hello.role: 0"));
  EXPECT_THAT(std::string(Message(Decode(bad_state).status())), HasSubstr("ReplayAnswer.state: 255"));
  EXPECT_FALSE(Decode(Encode(Verdict{.generation = {},
                                     .step = StepId(1),
                                     .incarnation = {},
                                     .log_sequence = 1,
                                     .sequences = {{.sequence = SequenceId(1),
                                                    .lineage = {},
                                                    .ids = {},
                                                    .logprobs = {},
                                                    .failure = static_cast<RowFailure>(255)}}}))
                   .ok());
}

TEST(HostileBytes, B205_AFrameWhoseShapeDoesNotHoldIsRefused) {
  const auto refused = [](auto damage) {
    FrameHeader header;
    header.step = StepId(1);
    header.hidden_size = 8;
    header.sequences = {{.sequence = SequenceId(1), .lineage = {}, .row_begin = 0, .row_count = 2},
                        {.sequence = SequenceId(2), .lineage = {}, .row_begin = 2, .row_count = 1}};
    header.rows = {{.id = 1, .position = 4, .slot = 4}, {.id = 2, .position = 5, .slot = 5}, {.id = 3}};
    EXPECT_TRUE(DecodeFrame(EncodeFrame(header)).ok());
    damage(header);
    return DecodeFrame(EncodeFrame(header)).status().code() == StatusCode::kInvalidArgument;
  };

  EXPECT_TRUE(refused([](FrameHeader& frame) { frame.sequences[1].row_count = 0xffffffff; }));
  EXPECT_TRUE(refused([](FrameHeader& frame) { frame.sequences[1].row_begin = 1; }));
  EXPECT_TRUE(refused([](FrameHeader& frame) { frame.sequences[0].num_drafted = 3; }));
  EXPECT_TRUE(refused([](FrameHeader& frame) { frame.sequences[1].sequence = SequenceId(1); }));
  EXPECT_TRUE(refused([](FrameHeader& frame) { frame.rows.pop_back(); }));
  EXPECT_TRUE(refused([](FrameHeader& frame) { frame.rows[1].id = -1; }));
  EXPECT_TRUE(refused([](FrameHeader& frame) { frame.rows[1].parent = 1; }));
  EXPECT_TRUE(refused([](FrameHeader& frame) { frame.rows[1].parent = -2; }));
  EXPECT_TRUE(refused([](FrameHeader& frame) { frame.rows[1].slot = 0x80000000; }));
  EXPECT_TRUE(refused([](FrameHeader& frame) { frame.step = StepId(0); }));
}

TEST(HostileBytes, ColumnsOfDifferentLengthAreRefused) {
  FlatBufferBuilder builder;
  const auto ids = builder.CreateVector(std::vector<int32_t>{1, 2, 3});
  const auto positions = builder.CreateVector(std::vector<uint32_t>{1, 2});
  wire::FrameBuilder frame(builder);
  frame.add_step(1);
  frame.add_row_ids(ids);
  frame.add_row_positions(positions);
  wire::FinishFrameBuffer(builder, frame.Finish());

  const Status status = DecodeFrame(BytesOf(builder)).status();

  EXPECT_THAT(std::string(Message(status)), HasSubstr("Frame.row_positions: columns of 3 and 2 entries"));
}

TEST(HostileBytes, VerdictTopListsThatClaimTooMuchAreRefused) {
  const auto with_counts = [](std::vector<uint32_t> counts) {
    FlatBufferBuilder builder;
    const auto ids = builder.CreateVector(std::vector<int32_t>{1, 2});
    const auto values = builder.CreateVector(std::vector<float>{0, 0});
    const auto ranks = builder.CreateVector(std::vector<uint32_t>{1, 1});
    const auto top_counts = builder.CreateVector(counts);
    wire::SequenceVerdictBuilder one(builder);
    one.add_ids(ids);
    one.add_logprobs(values);
    one.add_ranks(ranks);
    one.add_top_counts(top_counts);
    one.add_top_ids(ids);
    one.add_top_logprobs(values);
    const auto sequences = builder.CreateVector(std::vector{one.Finish()});
    wire::VerdictBuilder verdict(builder);
    verdict.add_step(1);
    verdict.add_sequences(sequences);
    return Decode(Wrap(builder, verdict.Finish())).ok();
  };

  EXPECT_TRUE(with_counts({1, 1}));
  EXPECT_TRUE(with_counts({2, 0}));
  EXPECT_FALSE(with_counts({2, 1}));
  EXPECT_FALSE(with_counts({1, 0}));
  EXPECT_FALSE(with_counts({0xffffffff, 3}));
  EXPECT_FALSE(with_counts({2}));
}

TEST(HostileBytes, ValuesThatNoRequestCanHaveAreRefused) {
  const auto refused = [](auto damage) {
    Admission admission;
    admission.ids = {1, 2};
    admission.prompt_len = 2;
    EXPECT_TRUE(Decode(Encode(admission)).ok());
    damage(admission);
    return !Decode(Encode(admission)).ok();
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();

  EXPECT_TRUE(refused([](Admission& a) { a.ids[1] = -5; }));
  EXPECT_TRUE(refused([](Admission& a) { a.prompt_len = 3; }));
  EXPECT_TRUE(refused([&](Admission& a) { a.sampling.temperature = nan; }));
  EXPECT_TRUE(refused([](Admission& a) { a.sampling.temperature = -1; }));
  EXPECT_TRUE(refused([](Admission& a) { a.sampling.top_p = 0; }));
  EXPECT_TRUE(refused([](Admission& a) { a.sampling.min_p = 1.5f; }));
  EXPECT_TRUE(refused([](Admission& a) { a.sampling.repetition_penalty = 0; }));
  EXPECT_TRUE(refused([](Admission& a) { a.sampling.top_k = -1; }));
  EXPECT_TRUE(refused([](Admission& a) { a.sampling.stop_token_ids = {-1}; }));
  EXPECT_TRUE(refused([](Admission& a) { a.sampling.bad_words = {{1, -1}}; }));
  EXPECT_TRUE(refused([&](Admission& a) { a.sampling.logit_bias = {{1, nan}}; }));
}

TEST(HostileBytes, PlansAndProposalsThatCannotBeMeantAreRefused) {
  const auto plan_refused = [](const SequencePlan& one, size_t copies = 1) {
    return !Decode(Encode(StepPlan{.generation = {},
                                   .step = StepId(1),
                                   .slot = 0,
                                   .sequences = std::vector<SequencePlan>(copies, one)}))
                .ok();
  };
  SequencePlan good;
  good.known_ids = {1};
  SequencePlan no_ids;
  SequencePlan too_far = good;
  too_far.start = 0x7fffffff;
  too_far.draft_len_max = 10;

  EXPECT_FALSE(plan_refused(good));
  EXPECT_TRUE(plan_refused(good, 2)) << "a sequence twice in one step";
  EXPECT_TRUE(plan_refused(no_ids)) << "P10";
  EXPECT_TRUE(plan_refused(too_far));

  const auto proposal_refused = [](std::vector<TokenId> ids, std::vector<int32_t> parents) {
    Proposal proposal;
    proposal.step = StepId(1);
    proposal.sequences.push_back(
        {.sequence = SequenceId(1), .lineage = {}, .ids = std::move(ids), .parents = std::move(parents)});
    return !Decode(Encode(proposal)).ok();
  };
  EXPECT_FALSE(proposal_refused({4, 5}, {-1, 0}));
  EXPECT_TRUE(proposal_refused({4, 5}, {-1}));
  EXPECT_TRUE(proposal_refused({4, 5}, {-1, 1}));
  EXPECT_TRUE(proposal_refused({4, 5}, {-2, 0}));
}

}  // namespace
}  // namespace paceline::testing
