#include "common/model/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/gguf_builder.h"
#include "tests/support/shared_data.h"
#include "tests/unit/model/model_test_util.h"

namespace paceline {
namespace {

using ::paceline::testing::GgufBuilder;
using ::paceline::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string U64Bytes(uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), 8); }

GgufBuilder SmallFile() {
  GgufBuilder builder;
  builder.AddString("general.architecture", "llama")
      .AddU32("layers", 7)
      .AddU16("small", 9)
      .AddBool("flag", true);
  builder.AddF32("eps", 0.5f).AddStrings("words", {"a", "", "long word"}).AddF32s("scores", {1.5f, -2.0f});
  builder.AddI32s("types", {-1, 3}).AddU32s("heads", {2, 2}).AddU8s("map", std::string("\x01\xFF", 2));
  builder.AddTensor("first", DType::kF32, {3, 2}, std::string(24, 'x'));
  builder.AddTensor("second", DType::kQ8_0, {32}, std::string(34, 'y'));
  return builder;
}

class GgufReader : public ::testing::Test {
 protected:
  StatusOr<GgufFile> Open(const std::string& bytes) {
    return GgufFile::Open(dir_.Write("model.gguf", bytes));
  }
  std::string RefusalOf(const std::string& bytes) {
    const auto file = Open(bytes);
    return file.ok() ? "was accepted" : std::string(Message(file.status()));
  }

  TempDir dir_;
};

TEST_F(GgufReader, ReadsEveryMetadataType) {
  const auto file = Open(SmallFile().Build());

  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file->GetString("general.architecture"), "llama");
  EXPECT_EQ(*file->GetU32("layers"), 7u);
  EXPECT_EQ(*file->GetU32("small"), 9u);
  EXPECT_TRUE(*file->GetBool("flag"));
  EXPECT_EQ(*file->GetFloat("eps"), 0.5);
  EXPECT_THAT(*file->GetStrings("words"), ElementsAre("a", "", "long word"));
  EXPECT_THAT(*file->GetFloats("scores"), ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(*file->GetI32s("types"), ElementsAre(-1, 3));
  EXPECT_THAT(*file->GetI32s("heads"), ElementsAre(2, 2));
  EXPECT_THAT(*file->GetU32OrArray("heads"), ElementsAre(2u, 2u));
  EXPECT_THAT(*file->GetU32OrArray("layers"), ElementsAre(7u));
  EXPECT_EQ(*file->GetBytes("map"), std::string_view("\x01\xFF", 2));
}

TEST_F(GgufReader, PlacesTensorsBehindTheHeader) {
  const auto file = Open(SmallFile().Build());

  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 2u);
  const GgufTensor* first = file->FindTensor("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->rows(), 2u);
  EXPECT_EQ(first->data.size(), 24u);
  EXPECT_EQ(static_cast<char>(first->data.back()), 'x');
  EXPECT_EQ(static_cast<char>(file->FindTensor("second")->data.front()), 'y');
  EXPECT_EQ(file->FindTensor("third"), nullptr);
}

TEST_F(GgufReader, B173_WrongMetadataTypeNamesKeyWantedAndFound) {
  GgufBuilder builder;
  builder.AddStrings("tokenizer.ggml.precompiled_charsmap", {"a", "b"});
  const auto file = Open(builder.Build());

  ASSERT_TRUE(file.ok()) << file.status();
  const Status status = file->GetBytes("tokenizer.ggml.precompiled_charsmap").status();

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status),
            "metadata key tokenizer.ggml.precompiled_charsmap: want array of u8, found array of 2 string");
}

TEST_F(GgufReader, EveryGetterRefusesOtherTypesAndMissingKeys) {
  const auto opened = Open(SmallFile().Build());
  ASSERT_TRUE(opened.ok());
  const GgufFile& file = *opened;
  const std::vector<std::function<Status(std::string_view)>> getters = {
      [&](std::string_view key) { return file.GetString(key).status(); },
      [&](std::string_view key) { return file.GetBool(key).status(); },
      [&](std::string_view key) { return file.GetFloat(key).status(); },
      [&](std::string_view key) { return file.GetStrings(key).status(); },
      [&](std::string_view key) { return file.GetFloats(key).status(); },
      [&](std::string_view key) { return file.GetI32s(key).status(); },
      [&](std::string_view key) { return file.GetBytes(key).status(); },
      [&](std::string_view key) { return file.GetU32(key).status(); },
      [&](std::string_view key) { return file.GetU32OrArray(key).status(); },
  };

  int accepted = 0;
  for (const auto& get : getters) {
    EXPECT_EQ(get("absent").code(), absl::StatusCode::kNotFound);
    for (const std::string_view key : file.Keys()) accepted += get(key).ok() ? 1 : 0;
  }

  // string 1, bool 1, f32 1, strings 1, floats 1, i32s (types, heads) 2, bytes 1, u32 (layers, small) 2, and
  // u32-or-array (layers, small, heads) 3; "types" holds -1 and "map" is an array of integers: 1 more.
  EXPECT_EQ(accepted, 14);
  EXPECT_EQ(*file.GetU32Or("absent", 5), 5u);
  EXPECT_FALSE(file.GetU32Or("flag", 5).ok());
}

TEST_F(GgufReader, B172_DimensionProductOverflowIsRefused) {
  GgufBuilder builder;
  builder.AddTensor("big", DType::kQ4_0, {1ull << 32, 1ull << 31}, "");
  EXPECT_THAT(RefusalOf(builder.Build()), HasSubstr("tensor big"));

  for (const uint64_t dim : {1ull << 63, ~0ull, 1ull << 62, 1ull << 61}) {
    GgufBuilder huge;
    huge.AddTensor("big", DType::kF32, {dim, 4, 4, 4}, "");
    EXPECT_THAT(RefusalOf(huge.Build()), HasSubstr("tensor big")) << dim;
  }
}

TEST_F(GgufReader, B172_TwoToThe61PairsAreRefused) {
  std::string bytes = SmallFile().Build();
  for (const size_t count_at : {8u, 16u}) {
    for (const uint64_t count : {1ull << 61, 1ull << 31, 1ull << 32, 1ull << 63, ~0ull}) {
      std::string damaged = bytes;
      damaged.replace(count_at, 8, U64Bytes(count));
      EXPECT_THAT(RefusalOf(damaged), HasSubstr("bytes are left for them"));
    }
  }
}

TEST_F(GgufReader, MetadataCapsAreHeldBeforeAnythingIsBuilt) {
  // 2^20 + 1 empty pairs of 13 bytes would fit into this file.
  std::string pairs = GgufBuilder().Build().substr(0, 24) + std::string(14u << 20, '\0');
  pairs.replace(16, 8, U64Bytes((1u << 20) + 1));
  EXPECT_THAT(RefusalOf(pairs), HasSubstr("at most 1048576 of each"));

  // A sparse file whose one string goes past 256 MB.
  const std::string head =
      GgufBuilder().AddRaw("long", 8, U64Bytes(kGgufMetadataBytesMax)).Build().substr(0, 24 + 8 + 4 + 4 + 8);
  const std::string path = dir_.Write("long.gguf", head);
  std::filesystem::resize_file(path, kGgufMetadataBytesMax + 4096);
  const Status status = GgufFile::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(Message(status)),
              HasSubstr("metadata key long: metadata goes past 268435456 bytes"));
}

TEST_F(GgufReader, B175_TensorPastTheEndIsRefused) {
  GgufBuilder builder;
  builder.AddTensor("wide", DType::kF32, {1024}, std::string(4096, 'x'));
  const std::string bytes = builder.Build();

  EXPECT_THAT(RefusalOf(bytes.substr(0, bytes.size() - 4096)), HasSubstr("tensor wide: its bytes end at"));
  EXPECT_THAT(RefusalOf(bytes.substr(0, bytes.size() - 1)), HasSubstr("tensor wide: its bytes end at"));
}

TEST_F(GgufReader, B161_BytesBehindTheLastTensorAreRefused) {
  const std::string bytes = SmallFile().Build();

  EXPECT_THAT(RefusalOf(bytes + std::string(100, '\0')), HasSubstr("the tensors end at"));
  EXPECT_THAT(RefusalOf(bytes + std::string(1, '\0')), HasSubstr("the tensors end at"));
  EXPECT_TRUE(Open(bytes.substr(0, bytes.size() - 30)).ok())
      << "padding of the last tensor (34 bytes) is optional";
}

TEST_F(GgufReader, DuplicateKeysAndTensorsAreRefused) {
  GgufBuilder keys;
  keys.AddU32("layers", 1).AddU32("layers", 2);
  EXPECT_THAT(RefusalOf(keys.Build()), HasSubstr("metadata key layers: is there twice"));

  GgufBuilder tensors;
  tensors.AddTensor("w", DType::kF32, {1}, std::string(4, 'x'));
  tensors.AddTensor("w", DType::kF32, {1}, std::string(4, 'x'));
  EXPECT_THAT(RefusalOf(tensors.Build()), HasSubstr("tensor w: is there twice"));
}

TEST_F(GgufReader, HeaderFieldsOutsideTheFormatAreRefusedByName) {
  std::string bytes = SmallFile().Build();
  const auto with_version = [&](const std::string& version) {
    return std::string(bytes).replace(4, 4, version);
  };
  EXPECT_THAT(RefusalOf(with_version(std::string("\0\0\0\3", 4))), HasSubstr("big-endian"));
  EXPECT_THAT(RefusalOf(with_version(std::string("\1\0\0\0", 4))), HasSubstr("version 1"));
  EXPECT_TRUE(Open(with_version(std::string("\2\0\0\0", 4))).ok());
  EXPECT_THAT(RefusalOf("GGML" + bytes.substr(4)), HasSubstr("magic"));

  EXPECT_THAT(RefusalOf(GgufBuilder().AddRaw("odd", 13, "....").Build()), HasSubstr("unknown value type 13"));
  const std::string nested = std::string("\x09\0\0\0", 4) + U64Bytes(0);
  EXPECT_THAT(RefusalOf(GgufBuilder().AddRaw("deep", 9, nested).Build()), HasSubstr("array of arrays"));
  EXPECT_THAT(RefusalOf(GgufBuilder().AddU32("general.alignment", 48).Build()), HasSubstr("power of two"));
  EXPECT_THAT(RefusalOf(GgufBuilder().AddTensor(std::string(64, 'n'), DType::kF32, {1}, "1234").Build()),
              HasSubstr("at most 63 bytes"));
  EXPECT_THAT(RefusalOf(GgufBuilder().AddTensor("w", DType::kF32, {1, 1, 1, 1, 1}, "1234").Build()),
              HasSubstr("1 to 4 dimensions"));
  EXPECT_THAT(RefusalOf(GgufBuilder().AddTensor("w", DType::kQ8_0, {33}, std::string(68, 'x')).Build()),
              HasSubstr("whole blocks of 32"));
}

TEST_F(GgufReader, UnreadTensorTypesAreRefusedByName) {
  EXPECT_THAT(Message(DTypeFromGgml(19).status()), HasSubstr("IQ1_S"));
  EXPECT_THAT(Message(DTypeFromGgml(4).status()), HasSubstr("removed"));
  EXPECT_THAT(Message(DTypeFromGgml(4096).status()), HasSubstr("unknown ggml type 4096"));
  EXPECT_EQ(*DTypeFromGgml(39), DType::kMXFP4);
}

TEST_F(GgufReader, MessagesCarryNoControlBytes) {
  GgufBuilder builder;
  builder.AddU32("a\n\x1b[31m\xff", 1);
  const auto file = Open(builder.Build());

  EXPECT_THAT(std::string(Message(file->GetString("a\n\x1b[31m\xff").status())),
              HasSubstr("a\\x0A\\x1B[31m\\xFF"));
}

TEST_F(GgufReader, OpensASplitModelFromAnyOfItsFiles) {
  const auto part = [](uint16_t index, const std::string& tensor) {
    GgufBuilder builder;
    if (index == 0) builder.AddString("general.architecture", "llama");
    builder.AddU16("split.no", index).AddU16("split.count", 2).AddU32("split.tensors.count", 2);
    return builder.AddTensor(tensor, DType::kF32, {1}, "1234");
  };
  dir_.Write("m-00001-of-00002.gguf", part(0, "a").Build());
  dir_.Write("m-00002-of-00002.gguf", part(1, "b").Build());

  const auto file = GgufFile::Open(dir_.Path("m-00002-of-00002.gguf"));

  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file->GetString("general.architecture"), "llama");
  EXPECT_NE(file->FindTensor("a"), nullptr);
  EXPECT_NE(file->FindTensor("b"), nullptr);

  dir_.Write("m-00002-of-00002.gguf", part(0, "b").Build());
  EXPECT_THAT(Message(GgufFile::Open(dir_.Path("m-00001-of-00002.gguf")).status()),
              HasSubstr("split.no 1 of 2"));
  dir_.Write("m-00002-of-00002.gguf", part(1, "a").Build());
  EXPECT_THAT(Message(GgufFile::Open(dir_.Path("m-00001-of-00002.gguf")).status()),
              HasSubstr("another file"));
  std::filesystem::remove(dir_.Path("m-00002-of-00002.gguf"));
  EXPECT_EQ(GgufFile::Open(dir_.Path("m-00001-of-00002.gguf")).status().code(), absl::StatusCode::kNotFound);
  const std::string renamed = dir_.Write("renamed.gguf", part(0, "a").Build());
  EXPECT_THAT(Message(GgufFile::Open(renamed).status()), HasSubstr("rename them"));
}

TEST_F(GgufReader, FilesThatAreNoFilesAreRefused) {
  EXPECT_EQ(GgufFile::Open(dir_.Path("absent.gguf")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(GgufFile::Open(dir_.Path("")).status()), HasSubstr("regular file"));
  EXPECT_THAT(RefusalOf(""), HasSubstr("empty"));
}

TEST_F(GgufReader, ReadsTheRealModel) {
  const std::string path = testing::RealModelPath();
  if (path.empty()) GTEST_SKIP() << "no real model: deploy/fetch-model lays it into models/";

  const auto file = GgufFile::Open(path);

  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), 272u);
  EXPECT_EQ(*file->GetU32("llama.block_count"), 30u);
  EXPECT_EQ(file->GetStrings("tokenizer.ggml.tokens")->size(), 49152u);
  EXPECT_EQ(file->FindTensor("token_embd.weight")->dtype, DType::kQ8_0);
}

}  // namespace
}  // namespace paceline
