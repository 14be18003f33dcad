// Damaged model files are refused with a reason or loaded; never a fault, a hang or a giant allocation.
// Mutations are drawn from a fixed seed, so a failure repeats; run under AddressSanitizer the same test finds
// silent overreads.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "common/model/gguf_file.h"
#include "common/model/safetensors_file.h"
#include "common/model/special_ids.h"
#include "common/model/weight_source.h"
#include "tests/support/tiny_llama.h"
#include "tests/unit/model/model_test_util.h"

namespace paceline {
namespace {

using ::paceline::testing::GgufBuilder;
using ::paceline::testing::TempDir;
using ::paceline::testing::TinyLlamaOptions;

struct Outcome {
  int refused = 0;
  int loaded = 0;
};

// Touches everything that a loaded source promises.
void ReadAll(const WeightSource& source) {
  uint64_t sum = 0;
  for (const TensorEntry& entry : source.Entries()) {
    if (entry.ignored) continue;
    const auto view = source.Get(entry.name);
    ASSERT_TRUE(view.ok()) << view.status();
    ASSERT_EQ(view->data.size(), view->rows * *RowBytes(view->dtype, view->cols));
    for (const std::byte byte : view->data) sum += static_cast<uint64_t>(byte);
  }
  EXPECT_EQ(source.Digest().size(), 32u);
  EXPECT_GT(sum, 0u);
  const auto inv_freq = LoadRopeInverseFrequencies(source);
  if (inv_freq.ok()) {
    EXPECT_EQ(inv_freq->size(), source.config().rope_dim / 2);
  }
}

// Opens as the three readers of a process do: weights, tokenizer metadata, special ids.
void OpenEverything(const std::string& path, Outcome& outcome) {
  const auto source = OpenModel(path);
  if (source.ok()) {
    ++outcome.loaded;
    ReadAll(**source);
  } else {
    ++outcome.refused;
    EXPECT_FALSE(Message(source.status()).empty());
  }
  (void)LoadModelDefaults(path);
  const auto file = GgufFile::Open(path);
  if (!file.ok()) return;
  for (const std::string_view key : file->Keys()) {
    (void)file->GetStrings(key);
    (void)file->GetI32s(key);
    (void)file->GetFloats(key);
    (void)file->GetBytes(key);
    (void)file->GetU32OrArray(key);
    (void)file->GetString(key);
    (void)file->GetBool(key);
  }
}

std::string Poke(std::string bytes, size_t at, uint64_t value, size_t width) {
  std::memcpy(bytes.data() + at, &value, std::min(width, bytes.size() - at));
  return bytes;
}

constexpr uint64_t kNastySizes[] = {0,          1,          0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
                                    1ull << 32, 1ull << 61, 1ull << 63, ~0ull};

class DamagedGguf : public ::testing::Test {
 protected:
  DamagedGguf() {
    TinyLlamaOptions options;
    options.num_layers = 1;
    options.dtype = DType::kQ8_0;
    options.rope_scaling = {RopeScalingKind::kLlama3, 8, 1, 4, 64};
    options.tokenizer = true;
    const GgufBuilder builder = TinyLlamaGguf(options);
    bytes_ = builder.Build();
    borders_ = builder.Borders();
    // The borders that end in the tensor data are those of the tensors: one per tensor, and the table is
    // before them.
    header_bytes_ = borders_[borders_.size() - 1 - kNumTensors];
  }
  void Try(const std::string& bytes, Outcome& outcome) {
    OpenEverything(dir_.Write("m.gguf", bytes), outcome);
  }

  static constexpr size_t kNumTensors = 3 + 1 + 9;
  TempDir dir_;
  std::string bytes_;
  std::vector<size_t> borders_;
  size_t header_bytes_ = 0;
};

TEST_F(DamagedGguf, TheUndamagedFileLoads) {
  Outcome outcome;
  Try(bytes_, outcome);
  EXPECT_EQ(outcome.loaded, 1);
}

TEST_F(DamagedGguf, EveryTruncationIsRefused) {
  Outcome outcome;
  for (const size_t border : borders_) {
    for (const size_t size : {border - 1, border, border + 1}) {
      if (size < bytes_.size()) Try(bytes_.substr(0, size), outcome);
    }
  }
  EXPECT_EQ(outcome.loaded, 0);
  EXPECT_GT(outcome.refused, 150);
}

TEST_F(DamagedGguf, NastySizesAtEveryBorderAreRefusedOrLoaded) {
  Outcome outcome;
  for (const size_t border : borders_) {
    if (border >= header_bytes_) break;
    for (const uint64_t value : kNastySizes) {
      Try(Poke(bytes_, border, value, 8), outcome);
      Try(Poke(bytes_, border, value, 4), outcome);
    }
  }
  EXPECT_GT(outcome.refused, 1000);
}

TEST_F(DamagedGguf, TwoThousandMutationsAreRefusedOrLoaded) {
  std::mt19937_64 random(172);
  Outcome outcome;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes_;
    const int flips = 1 + static_cast<int>(random() % 3);
    for (int flip = 0; flip < flips; ++flip) {
      // Strings of the tokenizer fill most of the header; half of the damage goes near the structure's
      // borders.
      const size_t border = borders_[random() % (borders_.size() - kNumTensors)];
      const size_t at =
          random() % 2 == 0 ? random() % header_bytes_ : std::min(border + random() % 8, header_bytes_ - 1);
      damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + random() % 255));
    }
    Try(damaged, outcome);
  }
  EXPECT_EQ(outcome.refused + outcome.loaded, 2000);
  EXPECT_GT(outcome.refused, 500) << "most structure bytes matter";
}

class DamagedSafetensors : public ::testing::Test {
 protected:
  DamagedSafetensors() {
    TinyLlamaOptions options;
    options.num_layers = 1;
    bytes_ = TinyLlamaSafetensors(options).Build();
    std::memcpy(&header_bytes_, bytes_.data(), sizeof(header_bytes_));
    config_ = TinyLlamaConfigJson(options);
    dir_.Write("hf/config.json", config_);
  }
  void Try(const std::string& bytes, Outcome& outcome) {
    dir_.Write("hf/model.safetensors", bytes);
    OpenEverything(dir_.Path("hf"), outcome);
  }
  TempDir dir_;
  std::string bytes_;
  std::string config_;
  uint64_t header_bytes_ = 0;
};

TEST_F(DamagedSafetensors, EveryTruncationIsRefused) {
  Outcome outcome;
  for (size_t size = 1; size < bytes_.size(); size += size < 8 + header_bytes_ ? 7 : 1009) {
    Try(bytes_.substr(0, size), outcome);
  }
  Try(bytes_.substr(0, bytes_.size() - 1), outcome);
  EXPECT_EQ(outcome.loaded, 0);
  EXPECT_GT(outcome.refused, 100);
}

TEST_F(DamagedSafetensors, TwoThousandMutationsAreRefusedOrLoaded) {
  std::mt19937_64 random(158);
  Outcome outcome;
  for (const uint64_t value : kNastySizes) Try(Poke(bytes_, 0, value, 8), outcome);
  EXPECT_EQ(outcome.loaded, 0);
  constexpr std::string_view kDigitsAndSyntax = "0123456789{}[]\",:-e.F \\";
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes_;
    const size_t at = 8 + random() % header_bytes_;
    // Half raw flips, half characters that keep the JSON alive and change what it says.
    damaged[at] = random() % 2 == 0 ? static_cast<char>(damaged[at] ^ static_cast<char>(1 + random() % 255))
                                    : kDigitsAndSyntax[random() % kDigitsAndSyntax.size()];
    Try(damaged, outcome);
  }
  EXPECT_EQ(outcome.refused + outcome.loaded, 2000 + static_cast<int>(std::size(kNastySizes)));
  EXPECT_GT(outcome.refused, 1000) << "most header bytes matter";
}

TEST_F(DamagedSafetensors, MutatedConfigsAreRefusedOrLoaded) {
  std::mt19937_64 random(74);
  Outcome outcome;
  dir_.Write("hf/model.safetensors", bytes_);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = config_;
    damaged[random() % damaged.size()] =
        static_cast<char>(random() % 2 == 0 ? random() % 256 : '0' + random() % 10);
    dir_.Write("hf/config.json", damaged);
    OpenEverything(dir_.Path("hf"), outcome);
  }
  EXPECT_EQ(outcome.refused + outcome.loaded, 2000);
  EXPECT_GT(outcome.refused, 500);
}

}  // namespace
}  // namespace paceline
