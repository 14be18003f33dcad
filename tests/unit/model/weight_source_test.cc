#include "common/model/weight_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/model/safetensors_file.h"
#include "kernels/dequantize/dequantize.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_llama.h"
#include "tests/unit/model/model_test_util.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::paceline::testing::GgufBuilder;
using ::paceline::testing::QuantizeRows;
using ::paceline::testing::SafetensorsBuilder;
using ::paceline::testing::TempDir;
using ::paceline::testing::TinyLlamaConfigJson;
using ::paceline::testing::TinyLlamaGguf;
using ::paceline::testing::TinyLlamaOptions;
using ::paceline::testing::TinyLlamaSafetensors;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<float> Floats(const WeightView& view) {
  std::vector<float> values(view.rows * view.cols);
  EXPECT_TRUE(kernels::DequantizeRow(view.dtype, view.data.data(), values.data(), values.size()).ok());
  return values;
}

class Weights : public ::testing::Test {
 protected:
  StatusOr<std::unique_ptr<WeightSource>> OpenGguf(const GgufBuilder& builder) {
    return OpenModel(dir_.Write("m.gguf", builder.Build()));
  }
  StatusOr<std::unique_ptr<WeightSource>> OpenFolder(const std::string& config,
                                                     const SafetensorsBuilder& weights) {
    dir_.Write("hf/config.json", config);
    dir_.Write("hf/model.safetensors", weights.Build());
    return OpenModel(dir_.Path("hf"));
  }
  template <typename T>
  static std::string RefusalOf(const StatusOr<T>& source) {
    return source.ok() ? "was accepted" : std::string(Message(source.status()));
  }

  TempDir dir_;
};

TEST_F(Weights, BothContainersGiveTheSameModel) {
  TinyLlamaOptions options;
  options.attention_bias = options.attention_output_bias = options.mlp_bias = true;

  const auto gguf = OpenGguf(TinyLlamaGguf(options));
  const auto folder = OpenFolder(TinyLlamaConfigJson(options), TinyLlamaSafetensors(options));

  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ASSERT_TRUE(folder.ok()) << folder.status();
  int compared = 0;
  for (const TensorEntry& entry : (*gguf)->Entries()) {
    if (entry.name.find("attn_q") != std::string::npos || entry.name.find("attn_k") != std::string::npos)
      continue;
    EXPECT_EQ(Floats(*(*gguf)->Get(entry.name)), Floats(*(*folder)->Get(entry.name))) << entry.name;
    ++compared;
  }
  EXPECT_EQ(compared, 3 + 2 * 12);
  // q and k are in each container's own row order: neighbours 2i, 2i+1 of GGUF are i, i + d/2 of the folder.
  const auto q_gguf = Floats(*(*gguf)->Get("blk.1.attn_q.weight"));
  const auto q_folder = Floats(*(*folder)->Get("blk.1.attn_q.weight"));
  const size_t cols = options.hidden_size;
  for (size_t col = 0; col < cols; ++col) {
    EXPECT_EQ(q_gguf[(16 + 2 * 3 + 1) * cols + col], q_folder[(16 + 3 + 8) * cols + col]);
  }
}

TEST_F(Weights, ViewsHaveTheShapeAndTypeOfTheFile) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
    TinyLlamaOptions options;
    options.dtype = dtype;
    const auto source = OpenGguf(TinyLlamaGguf(options));
    ASSERT_TRUE(source.ok()) << source.status();

    const WeightView down = *(*source)->Get("blk.0.ffn_down.weight");
    const WeightView norm = *(*source)->Get("output_norm.weight");

    EXPECT_EQ(down.dtype, dtype);
    EXPECT_EQ(down.rows, 64u);
    EXPECT_EQ(down.cols, 96u);
    EXPECT_EQ(down.data.size(), 64 * *RowBytes(dtype, 96));
    EXPECT_EQ(norm.dtype, DType::kF32);
    EXPECT_EQ(norm.rows, 1u);
    EXPECT_EQ(norm.cols, 64u);
    EXPECT_EQ((*source)->config().dtype, dtype) << "the type of most bytes";
  }
}

// Quantisation error of the tiny models' simple rounding: half a step of the block's scale.
TEST_F(Weights, QuantisedTinyModelsAreNearTheFloatOne) {
  const auto plain = OpenGguf(TinyLlamaGguf({}));
  ASSERT_TRUE(plain.ok());
  const std::vector<float> wanted = Floats(*(*plain)->Get("blk.0.ffn_up.weight"));
  const float amax = std::sqrt(3.0f / 64);
  for (const auto& [dtype, step] :
       {std::pair{DType::kQ8_0, amax / 127}, {DType::kQ4_0, amax / 8}, {DType::kQ4_1, 2 * amax / 15}}) {
    TinyLlamaOptions options;
    options.dtype = dtype;
    const auto source = OpenGguf(TinyLlamaGguf(options));
    ASSERT_TRUE(source.ok());
    const std::vector<float> found = Floats(*(*source)->Get("blk.0.ffn_up.weight"));
    // Q4_0 has no level at +8 steps, so its far end may be a whole step off; f16 scales add a thousandth.
    const float bound = step * (dtype == DType::kQ4_0 ? 1.01f : 0.51f) + amax * 0.002f;
    for (size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(found[i], wanted[i], bound) << Name(dtype) << " " << i;
  }
}

TEST_F(Weights, MissingExtraAndMisshapenTensorsAreRefusedByName) {
  EXPECT_THAT(RefusalOf(OpenGguf(TinyLlamaGguf({}).RemoveTensor("blk.1.ffn_norm.weight"))),
              HasSubstr("tensor blk.1.ffn_norm.weight (64) is missing"));
  EXPECT_THAT(RefusalOf(OpenGguf(TinyLlamaGguf({}).AddTensor("blk.0.attn_q_norm.weight", DType::kF32, {16},
                                                             std::string(64, 'x')))),
              HasSubstr("tensor blk.0.attn_q_norm.weight (F32 16) is not one that the config calls for"));
  EXPECT_THAT(
      RefusalOf(OpenGguf(TinyLlamaGguf({})
                             .RemoveTensor("output_norm.weight")
                             .AddTensor("output_norm.weight", DType::kF32, {32}, std::string(128, 'x')))),
      HasSubstr("tensor output_norm.weight: the config calls for 64, the file has 32"));
  EXPECT_THAT(
      RefusalOf(OpenGguf(TinyLlamaGguf({})
                             .RemoveTensor("output_norm.weight")
                             .AddTensor("output_norm.weight", DType::kI32, {64}, std::string(256, 'x')))),
      HasSubstr("want F32, F16 or BF16, found I32"));
  EXPECT_THAT(RefusalOf(OpenGguf(TinyLlamaGguf({}).AddTensor("blk.1.attn_q.bias", DType::kF32, {64},
                                                             std::string(256, 'x')))),
              HasSubstr("blk.1.attn_q.bias"));
}

TEST_F(Weights, B164_ShapeConflictsCarryBothNumbers) {
  TinyLlamaOptions options;
  GgufBuilder builder = TinyLlamaGguf(options);
  builder.Remove("llama.feed_forward_length").AddU32("llama.feed_forward_length", 2048);

  EXPECT_THAT(RefusalOf(OpenGguf(builder)), AllOf(HasSubstr("2048 x 64"), HasSubstr("96 x 64")));
}

TEST_F(Weights, IgnorableTensorsAreListedAndNotServed) {
  SafetensorsBuilder weights = TinyLlamaSafetensors({});
  weights.Add("model.layers.0.self_attn.rotary_emb.inv_freq", DType::kF32, {8}, std::string(32, '\0'));
  weights.Add("model.layers.0.self_attn.masked_bias", DType::kF32, {}, std::string(4, '\0'));

  const auto source = OpenFolder(TinyLlamaConfigJson({}), weights);

  ASSERT_TRUE(source.ok()) << source.status();
  int ignored = 0;
  for (const TensorEntry& entry : (*source)->Entries()) ignored += entry.ignored ? 1 : 0;
  EXPECT_EQ(ignored, 2);
  EXPECT_FALSE((*source)->Has("model.layers.0.self_attn.masked_bias"));
}

TEST_F(Weights, B170_AScaleTensorOfAQuantisedCheckpointIsRefused) {
  SafetensorsBuilder weights = TinyLlamaSafetensors({});
  weights.Add("model.layers.0.self_attn.q_proj.weight_scale", DType::kF32, {1}, std::string(4, '\0'));
  EXPECT_THAT(RefusalOf(OpenFolder(TinyLlamaConfigJson({}), weights)), HasSubstr("q_proj.weight_scale"));
}

TEST_F(Weights, B073_TiedConfigWithAStoredHead) {
  TinyLlamaOptions tied;
  tied.tied = true;
  const std::string config = TinyLlamaConfigJson(tied);

  SafetensorsBuilder equal = TinyLlamaSafetensors(tied);
  const auto source = OpenFolder(config, TinyLlamaSafetensors(tied));
  ASSERT_TRUE(source.ok()) << source.status();
  const WeightView embedding = *(*source)->Get("token_embd.weight");
  equal.Add("lm_head.weight", DType::kF32, {320, 64},
            std::string(reinterpret_cast<const char*>(embedding.data.data()), embedding.data.size()));
  const auto with_head = OpenFolder(config, equal);
  ASSERT_TRUE(with_head.ok()) << with_head.status();
  EXPECT_FALSE((*with_head)->Has("output.weight")) << "equal bytes are read once";
  EXPECT_EQ((*with_head)->Digest(), (*source)->Digest()) << "and are the same model";

  EXPECT_THAT(RefusalOf(OpenFolder(config, TinyLlamaSafetensors({}))),
              AllOf(HasSubstr("lm_head.weight"), HasSubstr("model.embed_tokens.weight"),
                    HasSubstr("tie_word_embeddings")));
}

TEST_F(Weights, B074_UntiedConfigWithoutAHead) {
  TinyLlamaOptions tied;
  tied.tied = true;
  EXPECT_THAT(RefusalOf(OpenFolder(TinyLlamaConfigJson({}), TinyLlamaSafetensors(tied))),
              AllOf(HasSubstr("lm_head.weight"), HasSubstr("tie_word_embeddings")));
}

TEST_F(Weights, B163_RopeFactorsOfGgufEqualLlama3ScalingOfTheFolder) {
  TinyLlamaOptions options;
  options.head_dim = 64;
  options.rope_theta = 500000;
  options.rope_scaling = {RopeScalingKind::kLlama3, 32, 1, 4, 8192};
  const auto gguf = OpenGguf(TinyLlamaGguf(options));
  const auto folder = OpenFolder(TinyLlamaConfigJson(options), TinyLlamaSafetensors(options));
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE((*gguf)->Has("rope_freqs.weight"));

  const auto from_gguf = LoadRopeInverseFrequencies(**gguf);
  const auto from_folder = LoadRopeInverseFrequencies(**folder);

  ASSERT_TRUE(from_gguf.ok()) << from_gguf.status();
  ASSERT_EQ(from_gguf->size(), 32u);
  EXPECT_NEAR((*from_folder)[18], 1.946163818e-05, 1e-14);
  // The factors are stored as float32: relative error 2^-24 and nothing else.
  for (size_t i = 0; i < 32; ++i) EXPECT_NEAR((*from_gguf)[i] / (*from_folder)[i], 1.0, 6e-8) << i;
}

TEST_F(Weights, RopeFactorsThatAreNoPositiveNumbersAreRefused) {
  TinyLlamaOptions options;
  options.rope_scaling = {RopeScalingKind::kLlama3, 32, 1, 4, 64};
  GgufBuilder builder = TinyLlamaGguf(options);
  builder.RemoveTensor("rope_freqs.weight")
      .AddTensor("rope_freqs.weight", DType::kF32, {8}, std::string(32, '\0'));
  const auto source = OpenGguf(builder);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(RefusalOf(LoadRopeInverseFrequencies(**source)),
              HasSubstr("rope_freqs.weight: element 0 is 0"));
}

TEST_F(Weights, DigestTellsModelsApartAndNotTheirNames) {
  const auto digest = [&](const TinyLlamaOptions& options, std::string_view name) {
    const auto source =
        OpenGguf(TinyLlamaGguf(options).Remove("general.name").AddString("general.name", name));
    EXPECT_TRUE(source.ok()) << source.status();
    return (*source)->Digest();
  };
  const std::string first = digest({}, "one");
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(digest({}, "two"), first);
  TinyLlamaOptions other_seed;
  other_seed.seed = 2;
  EXPECT_NE(digest(other_seed, "one"), first);
  TinyLlamaOptions other_theta;
  other_theta.rope_theta = 20000;
  EXPECT_NE(digest(other_theta, "one"), first);
}

TEST_F(Weights, GetOfAnAbsentTensorIsNotFound) {
  const auto source = OpenGguf(TinyLlamaGguf({}));
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->Get("blk.2.attn_q.weight").status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE((*source)->Has("rope_freqs.weight"));
}

// Splits the tiny model's tensors over two files and writes the index.
class Sharded : public Weights {
 protected:
  void SetUp() override {
    dir_.Write("hf/config.json", TinyLlamaConfigJson({}));
    dir_.Write("whole.safetensors", TinyLlamaSafetensors({}).Build());
    const auto whole = SafetensorsFile::Open(dir_.Path("whole.safetensors"));
    ASSERT_TRUE(whole.ok()) << whole.status();
    SafetensorsBuilder shards[2];
    std::string map;
    for (size_t i = 0; i < whole->tensors().size(); ++i) {
      const SafetensorsTensor& tensor = whole->tensors()[i];
      const std::string data(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
      shards[i % 2].Add(tensor.name, tensor.dtype, tensor.shape, data);
      map += fmt::format(R"({}"{}":"{}")", map.empty() ? "" : ",", tensor.name, kNames[i % 2]);
    }
    for (int i = 0; i < 2; ++i) shards_[i] = shards[i].Build();
    index_ = R"({"metadata":{"total_size":1},"weight_map":{)" + map + "}}";
    for (int i = 0; i < 2; ++i) dir_.Write("hf/" + std::string(kNames[i]), shards_[i]);
    dir_.Write("hf/model.safetensors.index.json", index_);
  }
  std::string Refusal() { return RefusalOf(OpenModel(dir_.Path("hf"))); }

  static constexpr std::string_view kNames[2] = {"model-00001-of-00002.safetensors",
                                                 "model-00002-of-00002.safetensors"};
  std::string shards_[2];
  std::string index_;
};

TEST_F(Sharded, EqualsTheSingleFile) {
  const auto sharded = OpenModel(dir_.Path("hf"));
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  const auto single = OpenFolder(TinyLlamaConfigJson({}), TinyLlamaSafetensors({}));
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ((*sharded)->Digest(), (*single)->Digest());
}

TEST_F(Sharded, B158_AShardThatWasCutIsRefused) {
  for (const size_t cut : {size_t{1}, size_t{64 * 4}, shards_[1].size() / 2}) {
    dir_.Write("hf/" + std::string(kNames[1]), shards_[1].substr(0, shards_[1].size() - cut));
    EXPECT_THAT(Refusal(), AllOf(HasSubstr(kNames[1]), HasSubstr("the data at"))) << cut;
  }
}

TEST_F(Sharded, B160_AnIndexOfRenamedFilesIsRefused) {
  fs::rename(dir_.Path("hf/" + std::string(kNames[1])), dir_.Path("hf/model-2.safetensors"));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(kNames[1]), HasSubstr("no such file")));
}

TEST_F(Sharded, TheIndexAndTheFilesMustAgree) {
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string index = index_;
    const size_t at = index.find(from);
    EXPECT_NE(at, std::string::npos);
    index.replace(at, from.size(), to);
    dir_.Write("hf/model.safetensors.index.json", index);
    return Refusal();
  };
  EXPECT_THAT(with("\"model.norm.weight\"", "\"model.norm.other\""),
              HasSubstr("is not in the index for this file"));
  EXPECT_THAT(with("{\"model", "{\"extra\":\"model-00001-of-00002.safetensors\",\"model"),
              HasSubstr("tensor extra of the index is missing"));
  EXPECT_THAT(with("model-00001-of-00002.safetensors", "../model.safetensors"), HasSubstr("of this folder"));
  EXPECT_THAT(with("\"weight_map\"", "\"weights\""), HasSubstr("weight_map"));
  EXPECT_THAT(with("}}", "}"), HasSubstr("not JSON"));
}

TEST_F(Weights, FoldersWithoutWeightsOrConfigAreRefused) {
  dir_.Write("hf/config.json", TinyLlamaConfigJson({}));
  EXPECT_THAT(RefusalOf(OpenModel(dir_.Path("hf"))), HasSubstr("neither model.safetensors nor"));
  fs::create_directories(dir_.Path("empty"));
  EXPECT_THAT(RefusalOf(OpenModel(dir_.Path("empty"))), HasSubstr("config.json"));
  EXPECT_EQ(OpenModel(dir_.Path("absent")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(Weights, DamagedConfigsAreRefused) {
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("{}garbage"), std::string("{}\0x", 4),
        std::string(200, '['), std::string(R"({"hidden_size":1,"hidden_size":2})"),
        std::string("{\"architectures\":[\"\xff\"]}")}) {
    dir_.Write("hf/config.json", text);
    EXPECT_EQ(OpenModel(dir_.Path("hf")).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST_F(Weights, HubIdsAreLookedUpInTheCache) {
  const std::string snapshot = "hub/models--org--tiny/snapshots/0123abcd/";
  dir_.Write("hub/models--org--tiny/refs/main", "0123abcd\n");
  dir_.Write(snapshot + "config.json", TinyLlamaConfigJson({}));
  dir_.Write(snapshot + "model.safetensors", TinyLlamaSafetensors({}).Build());
  ASSERT_EQ(::setenv("HF_HOME", dir_.Path("").c_str(), 1), 0);

  EXPECT_TRUE(OpenModel("org/tiny").ok()) << OpenModel("org/tiny").status();
  EXPECT_THAT(RefusalOf(OpenModel("org/other")),
              AllOf(HasSubstr("models--org--other"), HasSubstr("nothing is downloaded")));
  EXPECT_EQ(OpenModel("../tiny").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenModel("").status().code(), absl::StatusCode::kNotFound);
  dir_.Write("hub/models--org--tiny/refs/main", "../../elsewhere");
  EXPECT_THAT(RefusalOf(OpenModel("org/tiny")), HasSubstr("want a commit id"));
  dir_.Write("hub/models--org--tiny/refs/main", "ffff");
  EXPECT_THAT(RefusalOf(OpenModel("org/tiny")), HasSubstr("fetch the model again"));
  ::unsetenv("HF_HOME");
}

TEST_F(Weights, OpensTheRealModel) {
  const std::string path = testing::RealModelPath();
  if (path.empty()) GTEST_SKIP() << "no real model: deploy/fetch-model lays it into models/";

  const auto source = OpenModel(path);

  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->Entries().size(), 272u);
  EXPECT_EQ((*source)->config().dtype, DType::kQ4_1);
  EXPECT_TRUE((*source)->config().tie_word_embeddings);
  EXPECT_EQ((*source)->Get("token_embd.weight")->rows, 49152u);
  EXPECT_EQ((*source)->Digest(), (*OpenModel(path))->Digest());
}

TEST_F(Weights, OpensTheDraftModelOfTheSharedData) {
  const std::string path = testing::SharedDir() + "/models/smollm2-135m-draft/smollm2-135m-draft-Q4_1.gguf";
  if (!fs::exists(path)) GTEST_SKIP() << "no shared data folder beside the repository";
  const auto source = OpenModel(path);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->config().num_layers, 3u);
}

TEST_F(Weights, ADraftHeadIsNotAModel) {
  const std::string path = testing::SharedDir() + "/models/smollm2-135m-eagle";
  if (!fs::exists(path)) GTEST_SKIP() << "no shared data folder beside the repository";
  EXPECT_THAT(RefusalOf(OpenModel(path)), HasSubstr("is not one that the config calls for"));
}

}  // namespace
}  // namespace paceline
