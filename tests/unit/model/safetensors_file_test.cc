#include "common/model/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/safetensors_builder.h"

namespace paceline {
namespace {

using ::paceline::testing::SafetensorsBuilder;
using ::paceline::testing::SafetensorsBytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

StatusOr<std::vector<SafetensorsTensor>> Parse(const std::string& bytes) {
  return ParseSafetensors(std::as_bytes(std::span(bytes)));
}
std::string RefusalOf(const std::string& bytes) {
  const auto tensors = Parse(bytes);
  return tensors.ok() ? "was accepted" : std::string(Message(tensors.status()));
}
std::string HeaderRefusal(std::string_view header, size_t data_bytes = 8) {
  return RefusalOf(SafetensorsBytes(header, std::string(data_bytes, 'x')));
}

TEST(Safetensors, ReadsTensorsInDataOrder) {
  const std::string bytes = SafetensorsBytes(
      R"({"b":{"dtype":"F16","shape":[],"data_offsets":[8,10]},"__metadata__":{"format":"pt"},)"
      R"("a":{"shape":[1,2],"data_offsets":[0,8],"dtype":"F32"},)"
      R"("empty":{"dtype":"I64","shape":[0,3],"data_offsets":[10,10]}}   )",
      "12345678xy");

  const auto tensors = Parse(bytes);

  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].dtype, DType::kF32);
  EXPECT_THAT((*tensors)[0].shape, ElementsAre(1u, 2u));
  EXPECT_EQ(static_cast<char>((*tensors)[0].data[7]), '8');
  EXPECT_EQ((*tensors)[1].name, "b");
  EXPECT_THAT((*tensors)[1].shape, IsEmpty());
  EXPECT_EQ(static_cast<char>((*tensors)[1].data[0]), 'x');
  EXPECT_EQ((*tensors)[2].data.size(), 0u);
}

TEST(Safetensors, B158_B161_DataMustEndWithTheFile) {
  SafetensorsBuilder builder;
  builder.Add("w", DType::kF32, {4}, std::string(16, 'x'));
  const std::string bytes = builder.Build();

  EXPECT_EQ(RefusalOf(bytes), "was accepted");
  EXPECT_THAT(RefusalOf(bytes.substr(0, bytes.size() - 1)),
              HasSubstr("tensor w: its bytes end at 16, the data at 15"));
  EXPECT_THAT(RefusalOf(bytes + std::string(100, '\0')),
              HasSubstr("cover 16 bytes of data, the file holds 116"));
}

TEST(Safetensors, HolesAndOverlapsAreRefused) {
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
              HasSubstr("no hole"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                            R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
              HasSubstr("tensor b: want its bytes from 4 on"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})"),
              HasSubstr("its bytes end at"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[8,0]}})"),
              HasSubstr("found 8 to 0"));
}

TEST(Safetensors, ShapeTypeAndOffsetsMustAgree) {
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"),
              HasSubstr("needs 12 bytes"));
  EXPECT_THAT(
      HeaderRefusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,8]}})"),
      HasSubstr("size overflow"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})"),
              HasSubstr("dtype F8_E4M3 is not read"));
}

TEST(Safetensors, HeadersOutsideTheFormatAreRefused) {
  const std::string row = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_EQ(HeaderRefusal("{\"a\":" + row + "}"), "was accepted");
  EXPECT_THAT(HeaderRefusal("{\"a\":" + row + ",\"a\":" + row + "}"), HasSubstr("key a is there twice"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
              HasSubstr("dtype is there twice"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[2]}})"),
              HasSubstr("want dtype, shape and data_offsets"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})"),
              HasSubstr("want two data_offsets"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"),
              HasSubstr("negative"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})"),
              HasSubstr("fraction"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":"2","data_offsets":[0,8]}})"),
              HasSubstr("a string"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})"), HasSubstr("a number"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})"),
              HasSubstr("an array"));
  EXPECT_THAT(HeaderRefusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})"),
              HasSubstr("unknown field"));
  EXPECT_THAT(HeaderRefusal(R"({"a":5})"), HasSubstr("a number"));
  EXPECT_THAT(HeaderRefusal(R"({"__metadata__":{"a":{}}})"), HasSubstr("an object"));
  EXPECT_THAT(HeaderRefusal(R"({"__metadata__":[]})"), HasSubstr("an array"));
  EXPECT_THAT(HeaderRefusal("{\"a\":" + row + "} x"), HasSubstr("not JSON"));
  EXPECT_THAT(HeaderRefusal("{\"a\":" + row + "}" + std::string("\0\0", 2)), HasSubstr("NUL"));
  EXPECT_THAT(HeaderRefusal("{\"\xff\":" + row + "}"), HasSubstr("not JSON"));
  EXPECT_THAT(HeaderRefusal(" {}"), HasSubstr("does not start with {"));
  EXPECT_THAT(HeaderRefusal("[]"), HasSubstr("does not start with {"));
  EXPECT_NE(HeaderRefusal("{\"a\":" + std::string(100000, '[')), "was accepted");
}

TEST(Safetensors, HeaderLengthIsCheckedAgainstCapAndFile) {
  const auto with_length = [](uint64_t length) {
    std::string bytes = SafetensorsBytes("{}", "");
    bytes.replace(0, 8, std::string(reinterpret_cast<const char*>(&length), 8));
    return RefusalOf(bytes);
  };
  EXPECT_EQ(with_length(2), "was accepted");
  EXPECT_THAT(with_length(3), HasSubstr("the file ends at 10"));
  EXPECT_THAT(with_length(100'000'000), HasSubstr("the file ends at 10"));
  EXPECT_THAT(with_length(100'000'001), HasSubstr("at most 100000000"));
  EXPECT_THAT(with_length(~0ull), HasSubstr("at most 100000000"));
  EXPECT_THAT(RefusalOf("1234567"), HasSubstr("7 bytes"));
}

}  // namespace
}  // namespace paceline
