#include "common/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/model/gguf_file.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_llama.h"
#include "tests/unit/model/model_test_util.h"

namespace paceline {
namespace {

using nlohmann::json;
using ::paceline::testing::GgufBuilder;
using ::paceline::testing::TempDir;
using ::paceline::testing::TinyLlamaConfig;
using ::paceline::testing::TinyLlamaGguf;
using ::paceline::testing::TinyLlamaOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;

class GgufConfig : public ::testing::Test {
 protected:
  StatusOr<ModelConfig> Read(const GgufBuilder& builder) {
    ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(dir_.Write("m.gguf", builder.Build())));
    return ModelConfigFromGguf(file);
  }
  std::string RefusalOf(const GgufBuilder& builder) {
    const auto config = Read(builder);
    return config.ok() ? "was accepted" : std::string(Message(config.status()));
  }
  TempDir dir_;
};

TEST_F(GgufConfig, EqualsWhatTheFileWasMadeFrom) {
  TinyLlamaOptions options;
  options.tied = true;
  options.attention_bias = true;
  options.rope_scaling = {.kind = RopeScalingKind::kLinear, .factor = 4.0};

  const auto config = Read(TinyLlamaGguf(options));

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config, TinyLlamaConfig(options));
}

TEST_F(GgufConfig, DefaultsStandInForMissingKeys) {
  GgufBuilder builder = TinyLlamaGguf({});
  for (const char* key :
       {"llama.attention.head_count_kv", "llama.attention.key_length", "llama.attention.value_length",
        "llama.vocab_size", "llama.rope.dimension_count", "llama.rope.freq_base", "general.name"}) {
    builder.Remove(key);
  }

  const auto config = Read(builder);

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->num_kv_heads, 4u);
  EXPECT_EQ(config->head_dim, 16u);
  EXPECT_EQ(config->rope_dim, 16u);
  EXPECT_EQ(config->vocab_size, 320u);
  EXPECT_EQ(config->rope_theta, 10000);
}

TEST_F(GgufConfig, B167_HeadSizeComesFromTheKeyAndAMissingHeadMeansTied) {
  TinyLlamaOptions options;
  options.hidden_size = 96;
  options.head_dim = 32;  // 4 * 32 != 96
  options.tied = true;

  const auto config = Read(TinyLlamaGguf(options));

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->head_dim, 32u);
  EXPECT_TRUE(config->tie_word_embeddings);
}

TEST_F(GgufConfig, B166_PerLayerCountsAreHonouredWhenEqualAndRefusedWhenNot) {
  GgufBuilder equal = TinyLlamaGguf({});
  equal.Remove("llama.attention.head_count_kv").AddU32s("llama.attention.head_count_kv", {2, 2});
  ASSERT_TRUE(Read(equal).ok());
  EXPECT_EQ(Read(equal)->num_kv_heads, 2u);

  GgufBuilder mixed = TinyLlamaGguf({});
  mixed.Remove("llama.attention.head_count_kv").AddU32s("llama.attention.head_count_kv", {0, 2});
  EXPECT_THAT(RefusalOf(mixed),
              AllOf(HasSubstr("llama.attention.head_count_kv"), HasSubstr("layers differ")));

  GgufBuilder wrong_length = TinyLlamaGguf({});
  wrong_length.Remove("llama.feed_forward_length").AddU32s("llama.feed_forward_length", {96, 96, 96});
  EXPECT_THAT(RefusalOf(wrong_length), HasSubstr("want 2 values, one per layer, found 3"));
}

TEST_F(GgufConfig, B178_Llama3WithoutRopeBaseIsRefused) {
  TinyLlamaOptions options;
  options.rope_scaling = {RopeScalingKind::kLlama3, 8, 1, 4, 64};
  GgufBuilder builder = TinyLlamaGguf(options);
  builder.Remove("llama.rope.freq_base");

  EXPECT_THAT(RefusalOf(builder), HasSubstr("llama.rope.freq_base is missing"));
}

TEST_F(GgufConfig, WhatWouldChangeTheMathsIsRefusedByName) {
  const auto with = [](std::string_view key, uint32_t value) { return TinyLlamaGguf({}).AddU32(key, value); };
  EXPECT_THAT(RefusalOf(with("llama.expert_count", 8)), HasSubstr("llama.expert_count is 8"));
  EXPECT_TRUE(Read(with("llama.expert_count", 0)).ok());
  EXPECT_THAT(RefusalOf(with("llama.attention.sliding_window", 64)),
              HasSubstr("llama.attention.sliding_window is 64"));
  EXPECT_TRUE(Read(with("llama.attention.sliding_window", 512)).ok())
      << "a window of the whole context never acts";
  EXPECT_THAT(RefusalOf(TinyLlamaGguf({}).AddF32("llama.final_logit_softcapping", 30.0f)),
              HasSubstr("llama.final_logit_softcapping is 30"));
  EXPECT_THAT(RefusalOf(TinyLlamaGguf({}).AddString("llama.rope.scaling.type", "yarn")),
              AllOf(HasSubstr("llama.rope.scaling.type"), HasSubstr("yarn")));
}

TEST_F(GgufConfig, UnknownArchitecturesAreRefusedWithTheListOfKnownOnes) {
  GgufBuilder builder = TinyLlamaGguf({});
  builder.Remove("general.architecture").AddString("general.architecture", "gemma3");
  EXPECT_THAT(RefusalOf(builder), AllOf(HasSubstr("gemma3"), HasSubstr("llama")));
}

TEST_F(GgufConfig, ConflictsAreRefusedWithBothNumbers) {
  GgufBuilder vocab = TinyLlamaGguf({});
  vocab.Remove("llama.vocab_size").AddU32("llama.vocab_size", 300);
  EXPECT_THAT(RefusalOf(vocab), AllOf(HasSubstr("300"), HasSubstr("320")));
  GgufBuilder heads = TinyLlamaGguf({});
  heads.Remove("llama.attention.head_count_kv").AddU32("llama.attention.head_count_kv", 3);
  EXPECT_THAT(RefusalOf(heads), AllOf(HasSubstr("4 attention heads"), HasSubstr("3 key/value heads")));
  GgufBuilder none = TinyLlamaGguf({});
  none.Remove("llama.attention.head_count").AddU32("llama.attention.head_count", 0);
  EXPECT_THAT(RefusalOf(none), HasSubstr("head_count: want 1 or more"));
}

TEST_F(GgufConfig, ReadsTheRealModel) {
  const std::string path = testing::RealModelPath();
  if (path.empty()) GTEST_SKIP() << "no real model: deploy/fetch-model lays it into models/";

  const auto config = LoadModelConfig(path);

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->num_layers, 30u);
  EXPECT_EQ(config->hidden_size, 576u);
  EXPECT_EQ(config->num_heads, 9u);
  EXPECT_EQ(config->num_kv_heads, 3u);
  EXPECT_EQ(config->head_dim, 64u);
  EXPECT_EQ(config->vocab_size, 49152u);
  EXPECT_EQ(config->context_len, 8192u);
  EXPECT_EQ(config->rope_theta, 100000);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_EQ(config->rope_pairing, RopePairing::kInterleaved);
}

StatusOr<ModelConfig> FromJson(const json& config) { return ModelConfigFromJson(config, "test"); }

std::string JsonRefusal(const json& config) {
  const auto read = FromJson(config);
  return read.ok() ? "was accepted" : std::string(Message(read.status()));
}

json Llama31() {
  return json::parse(R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "torch_dtype": "bfloat16",
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"}})");
}

TEST(JsonConfig, ReadsLlama31) {
  const auto config = FromJson(Llama31());

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->head_dim, 128u);
  EXPECT_EQ(config->num_kv_heads, 8u);
  EXPECT_EQ(config->rope_scaling, (RopeScaling{RopeScalingKind::kLlama3, 8, 1, 4, 8192}));
  EXPECT_EQ(config->rope_pairing, RopePairing::kHalves);
  EXPECT_EQ(config->dtype, DType::kBF16);
  EXPECT_FALSE(config->tie_word_embeddings);
}

TEST(JsonConfig, DefaultsAreTheFamilys) {
  const auto llama = FromJson(json::parse(R"({"architectures": ["LlamaForCausalLM"]})"));
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_EQ(llama->vocab_size, 32000u);
  EXPECT_EQ(llama->hidden_size, 4096u);
  EXPECT_EQ(llama->intermediate_size, 11008u);
  EXPECT_EQ(llama->num_layers, 32u);
  EXPECT_EQ(llama->num_kv_heads, 32u);
  EXPECT_EQ(llama->context_len, 2048u);
  EXPECT_EQ(llama->rms_norm_eps, 1e-6f);
  EXPECT_EQ(llama->rope_theta, 10000);

  const auto mistral = FromJson(json::parse(R"({"model_type": "mistral", "sliding_window": null})"));
  ASSERT_TRUE(mistral.ok()) << mistral.status();
  EXPECT_EQ(mistral->intermediate_size, 14336u);
  EXPECT_EQ(mistral->num_kv_heads, 8u);
  EXPECT_EQ(mistral->context_len, 131072u);
  const auto null_kv = FromJson(
      json::parse(R"({"model_type": "mistral", "sliding_window": null, "num_key_value_heads": null})"));
  EXPECT_EQ(null_kv->num_kv_heads, 32u);
}

TEST(JsonConfig, B179_BothSpellingsOfRopeAreRead) {
  json v5 = Llama31();
  v5["rope_parameters"] = v5["rope_scaling"];
  v5["rope_parameters"]["rope_theta"] = v5["rope_theta"];
  v5["dtype"] = v5["torch_dtype"];
  for (const char* key : {"rope_scaling", "rope_theta", "torch_dtype"}) v5.erase(key);

  ASSERT_TRUE(FromJson(v5).ok()) << FromJson(v5).status();
  EXPECT_EQ(*FromJson(v5), *FromJson(Llama31()));

  json old_type = Llama31();
  old_type["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(FromJson(old_type)->rope_scaling.kind, RopeScalingKind::kLinear);
  json plain = Llama31();
  plain["rope_scaling"] = nullptr;
  plain["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  EXPECT_EQ(FromJson(plain)->rope_scaling.kind, RopeScalingKind::kNone);
}

TEST(JsonConfig, B179_UnknownAndUnsupportedRopeTypesAreRefused) {
  for (const char* type : {"yarn", "dynamic", "longrope", "su", "mrope", "someday"}) {
    json config = Llama31();
    config["rope_scaling"] = {{"rope_type", type}, {"factor", 2.0}};
    EXPECT_THAT(JsonRefusal(config), AllOf(HasSubstr("rope type"), HasSubstr(type)));
    config["rope_parameters"] = config["rope_scaling"];
    config.erase("rope_scaling");
    EXPECT_THAT(JsonRefusal(config), HasSubstr(type));
  }
  json both = Llama31();
  both["rope_parameters"] = both["rope_scaling"];
  EXPECT_THAT(JsonRefusal(both), HasSubstr("keep one"));
  json conflict = Llama31();
  conflict["rope_scaling"]["rope_theta"] = 10000.0;
  EXPECT_THAT(JsonRefusal(conflict), HasSubstr("want one value"));
  json incomplete = Llama31();
  incomplete["rope_scaling"].erase("factor");
  EXPECT_THAT(JsonRefusal(incomplete), HasSubstr("factor is missing"));
}

TEST(JsonConfig, B178_Llama3WithoutRopeThetaIsRefused) {
  json by_scaling = Llama31();
  by_scaling.erase("rope_theta");
  by_scaling["vocab_size"] = 1000;
  EXPECT_THAT(JsonRefusal(by_scaling), HasSubstr("rope_theta is missing"));
  json by_vocab = Llama31();
  by_vocab.erase("rope_theta");
  by_vocab.erase("rope_scaling");
  EXPECT_THAT(JsonRefusal(by_vocab), HasSubstr("rope_theta is missing"));
}

TEST(JsonConfig, B169_QuantisedCheckpointsAreRefusedByKey) {
  json config = Llama31();
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  EXPECT_THAT(JsonRefusal(config), HasSubstr("quantization_config"));
}

TEST(JsonConfig, WhatWouldChangeTheMathsIsRefusedByName) {
  json mistral = json::parse(R"({"architectures": ["MistralForCausalLM"]})");
  EXPECT_THAT(JsonRefusal(mistral), HasSubstr("sliding_window 4096")) << "the family's default";
  mistral["max_position_embeddings"] = 4096;
  EXPECT_TRUE(FromJson(mistral).ok()) << "a window of the whole context never acts";
  mistral["sliding_window"] = 1024;
  EXPECT_THAT(JsonRefusal(mistral), HasSubstr("sliding_window 1024"));

  json llama = Llama31();
  llama["hidden_act"] = "gelu";
  EXPECT_THAT(JsonRefusal(llama), HasSubstr("hidden_act gelu"));
  llama = Llama31();
  llama["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_THAT(JsonRefusal(llama), HasSubstr("sliding_attention"));
  llama = Llama31();
  llama["architectures"] = {"Qwen2ForCausalLM"};
  EXPECT_THAT(JsonRefusal(llama), AllOf(HasSubstr("Qwen2ForCausalLM"), HasSubstr("LlamaForCausalLM"),
                                        HasSubstr("MistralForCausalLM")));
}

TEST(JsonConfig, WrongTypesAndRangesNameTheKey) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{{"num_hidden_layers", "32"},
                                                                            {"hidden_size", -1},
                                                                            {"hidden_size", 4096.5},
                                                                            {"rope_theta", "big"},
                                                                            {"rms_norm_eps", true},
                                                                            {"tie_word_embeddings", 1},
                                                                            {"vocab_size", 4294967296},
                                                                            {"rope_scaling", "llama"},
                                                                            {"partial_rotary_factor", 0.0}}) {
    json config = Llama31();
    config[key] = value;
    EXPECT_THAT(JsonRefusal(config), HasSubstr(key)) << value;
  }
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{{"num_hidden_layers", 0},
                                                                            {"hidden_size", 0},
                                                                            {"num_attention_heads", 0},
                                                                            {"num_key_value_heads", 5},
                                                                            {"head_dim", 127},
                                                                            {"rms_norm_eps", -1e-5},
                                                                            {"rope_theta", 0.0},
                                                                            {"vocab_size", 4000000000},
                                                                            {"head_dim", 1048576},
                                                                            {"num_hidden_layers", 1000000}}) {
    json config = Llama31();
    config[key] = value;
    EXPECT_NE(JsonRefusal(config), "was accepted") << key << " " << value;
  }
  EXPECT_FALSE(FromJson(json::array()).ok());
}

// Values of transformers' formulas, printed to ten digits.
TEST(RopeFrequencies, EqualThePublishedOnes) {
  struct Case {
    uint32_t head_dim;
    RopeScaling scaling;
    uint32_t index;
    double wanted;
  };
  const RopeScaling plain;
  const RopeScaling by8 = {RopeScalingKind::kLlama3, 8, 1, 4, 8192};
  const RopeScaling by32 = {RopeScalingKind::kLlama3, 32, 1, 4, 8192};
  const RopeScaling linear = {.kind = RopeScalingKind::kLinear, .factor = 4};
  for (const Case& c : std::vector<Case>{{128, plain, 29, 2.616099253e-03},
                                         {128, by8, 28, 3.211445995e-03},
                                         {128, by8, 29, 2.166570764e-03},
                                         {128, by8, 32, 5.248461610e-04},
                                         {128, by8, 34, 1.785078128e-04},
                                         {128, by8, 35, 9.556212354e-05},
                                         {64, by32, 14, 3.211445995e-03},
                                         {64, by32, 15, 1.290547928e-03},
                                         {64, by32, 17, 9.708287803e-05},
                                         {64, by32, 18, 1.946163818e-05},
                                         {128, linear, 32, 1.414213562e-03 / 4}}) {
    ModelConfig config;
    config.rope_theta = 500000;
    config.head_dim = config.rope_dim = c.head_dim;
    config.rope_scaling = c.scaling;

    const std::vector<double> inv_freq = RopeInverseFrequencies(config);

    ASSERT_EQ(inv_freq.size(), c.head_dim / 2);
    EXPECT_EQ(inv_freq[0], 1.0 / (c.scaling.kind == RopeScalingKind::kLinear ? 4 : 1));
    EXPECT_NEAR(inv_freq[c.index] / c.wanted, 1.0, 1e-9) << "head " << c.head_dim << " index " << c.index;
  }
}

}  // namespace
}  // namespace paceline
