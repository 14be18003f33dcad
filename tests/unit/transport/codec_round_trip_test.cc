// Whatever is encoded is decoded to the same struct, for every kind, at any address, in bounded space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "common/transport/codec.h"
#include "tests/unit/transport/random_messages.h"

namespace paceline::testing {
namespace {

class CodecOfKind : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(EveryKind, CodecOfKind, ::testing::Range(size_t{0}, kNumKinds),
                         [](const auto& param) {
                           return std::string(KindName(RandomMessages(1).Make(param.param)));
                         });

TEST_P(CodecOfKind, CarriesRandomMessagesUnchanged) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const WireMessage message = RandomMessages(seed).Make(GetParam());

    const auto decoded = Decode(Encode(message));

    ASSERT_TRUE(decoded.ok()) << "seed " << seed << ": " << decoded.status();
    ASSERT_TRUE(*decoded == message) << "seed " << seed;
  }
}

TEST_P(CodecOfKind, ReadsFromAnyAddress) {
  const WireMessage message = RandomMessages(5).Make(GetParam());
  const std::vector<std::byte> bytes = Encode(message);
  std::vector<std::byte> shifted(bytes.size() + 8);

  for (size_t shift = 0; shift < 8; ++shift) {
    std::memcpy(shifted.data() + shift, bytes.data(), bytes.size());
    const auto decoded = Decode(std::span(shifted).subspan(shift, bytes.size()));
    ASSERT_TRUE(decoded.ok()) << "shift " << shift << ": " << decoded.status();
    EXPECT_TRUE(*decoded == message) << "shift " << shift;
  }
}

TEST(CodecOfFrame, CarriesRandomHeadersUnchanged) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const FrameHeader header = RandomMessages(seed).MakeFrame();

    const auto decoded = DecodeFrame(EncodeFrame(header));

    ASSERT_TRUE(decoded.ok()) << "seed " << seed << ": " << decoded.status();
    ASSERT_TRUE(*decoded == header) << "seed " << seed;
  }
}

TEST(CodecOfFrame, StatesTheBytesOfItsPayload) {
  FrameHeader header;
  header.rows.resize(6);
  header.hidden_size = 576;

  EXPECT_EQ(FramePayloadBytes(header).value(), 6u * 576 * 4);
}

TEST(Codec, ALongPromptFitsIntoAControlMessage) {
  Admission admission;
  admission.ids.assign(200000, 7);
  admission.prompt_len = 200000;

  const auto bytes = Encode(admission);

  EXPECT_LE(bytes.size(), kControlMessageBytesMax);
  EXPECT_TRUE(Decode(bytes).ok());
}

TEST(Codec, ControlBytesInTextsCannotWriteASecondLogLine) {
  const auto decoded = Decode(Encode(Goodbye{.reason = "bye\n12:00 E fake\x1b[31m\x7f"}));

  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<Goodbye>(*decoded).reason, "bye?12:00 E fake?[31m?");
}

}  // namespace
}  // namespace paceline::testing
