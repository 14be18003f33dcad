// Files of the public writers (make_reference_files.py: gguf-py and safetensors) read as those writers meant
// them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/model/gguf_file.h"
#include "common/model/safetensors_file.h"
#include "kernels/dequantize/dequantize.h"
#include "tests/support/shared_data.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

std::string Path(const std::string& name) { return testing::SourceDir() + "/tests/unit/model/data/" + name; }

TEST(ReferenceFiles, MetadataOfGgufPyIsReadAsWritten) {
  const auto file = GgufFile::Open(Path("reference.gguf"));

  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file->GetString("general.architecture"), "llama");
  EXPECT_EQ(*file->GetString("test.text"), "naïve ▁ text");
  EXPECT_EQ(*file->GetFloat("test.f64"), 0.1);
  EXPECT_TRUE(*file->GetBool("test.bool"));
  EXPECT_THAT(*file->GetStrings("test.words"), ElementsAre("", "Ġhe", "llo"));
  EXPECT_THAT(*file->GetI32s("test.numbers"), ElementsAre(1, -2, 3));
  EXPECT_THAT(*file->GetFloats("test.floats"), ElementsAre(0.5f, -1.25f));
  EXPECT_FALSE(file->GetU32("test.u64").ok()) << "2^40 does not fit";
  EXPECT_FALSE(file->GetU32("test.i8").ok()) << "-5 does not fit";
}

// Both decoders round each of at most three float32 operations once, in another order perhaps: 4 ulp of the
// largest value of the tensor.
TEST(ReferenceFiles, EveryWeightTypeDecodesToTheValuesOfGgufPy) {
  const auto gguf = GgufFile::Open(Path("reference.gguf"));
  const auto decoded = SafetensorsFile::Open(Path("reference.safetensors"));
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(gguf->tensors().size(), 16u);
  ASSERT_EQ(decoded->tensors().size(), 16u);

  for (const SafetensorsTensor& wanted_tensor : decoded->tensors()) {
    SCOPED_TRACE(wanted_tensor.name);
    const GgufTensor* tensor = gguf->FindTensor(wanted_tensor.name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(Name(tensor->dtype), wanted_tensor.name);
    ASSERT_THAT(wanted_tensor.shape, ElementsAre(tensor->dims[1], tensor->dims[0]));
    const size_t count = tensor->dims[0] * tensor->dims[1];
    std::vector<float> wanted(count);
    std::memcpy(wanted.data(), wanted_tensor.data.data(), wanted_tensor.data.size());
    float largest = 0;
    for (const float value : wanted) largest = std::max(largest, std::abs(value));

    std::vector<float> values(count);
    ASSERT_TRUE(kernels::DequantizeRow(tensor->dtype, tensor->data.data(), values.data(), count).ok());

    const float bound = 4 * std::numeric_limits<float>::epsilon() * largest;
    for (size_t i = 0; i < count; ++i) ASSERT_NEAR(values[i], wanted[i], bound) << "element " << i;
  }
}

}  // namespace
}  // namespace paceline
