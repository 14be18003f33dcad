// Bytes that released builds wrote are read as they were meant. PACELINE_UPDATE_GOLDEN=1 writes files that
// are missing; existing ones are never changed: that is the point of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/transport/codec.h"
#include "tests/support/shared_data.h"
#include "tests/unit/transport/random_messages.h"

namespace paceline::testing {
namespace {

constexpr uint64_t kSeed = 20;

std::string GoldenPath(const std::string& name) {
  return SourceDir() + "/tests/unit/transport/golden/1.0-" + name + ".bin";
}

std::string GoldenBytes(const std::string& name, std::span<const std::byte> current) {
  const std::string path = GoldenPath(name);
  if (!std::filesystem::exists(path) && std::getenv("PACELINE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(current.data()), static_cast<std::streamsize>(current.size()));
  }
  return ReadFileOrDie(path);
}

class GoldenKind : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(EveryKind, GoldenKind, ::testing::Range(size_t{0}, kNumKinds),
                         [](const auto& param) {
                           return std::string(KindName(RandomMessages(1).Make(param.param)));
                         });

TEST_P(GoldenKind, IsStillReadAsItWasMeant) {
  const WireMessage meant = RandomMessages(kSeed).Make(GetParam());

  const std::string bytes = GoldenBytes(std::string(KindName(meant)), Encode(meant));
  const auto decoded = Decode(std::as_bytes(std::span(bytes)));

  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(*decoded == meant);
}

TEST(GoldenFrame, IsStillReadAsItWasMeant) {
  const FrameHeader meant = RandomMessages(kSeed).MakeFrame();

  const std::string bytes = GoldenBytes("Frame", EncodeFrame(meant));
  const auto decoded = DecodeFrame(std::as_bytes(std::span(bytes)));

  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(*decoded == meant);
}

}  // namespace
}  // namespace paceline::testing
