#include "common/config/serve_config.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

StatusOr<ServeConfig> From(std::vector<std::string> args) {
  ASSIGN_OR_RETURN(const ParsedSettings parsed, ReadSettings({std::move(args), {}}));
  return MakeServeConfig(parsed);
}

std::string ErrorOf(std::vector<std::string> args) {
  return std::string(Message(From(std::move(args)).status()));
}

TEST(ServeConfig, DefaultsFollowThePipeline) {
  const auto config = From({"model.gguf", "-pp", "3"});

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->num_slots, 3u);
  EXPECT_EQ(config->max_num_seqs, 384u);
  EXPECT_EQ(config->max_batched_tokens, 6144u);
  EXPECT_EQ(config->served_model_names, std::vector<std::string>{"model.gguf"});
  EXPECT_TRUE(config->single_host());
}

TEST(ServeConfig, ModelIsWantedOnce) {
  EXPECT_EQ(ErrorOf({}), "want MODEL: a folder, a .gguf file or a cached hub id");
  EXPECT_EQ(ErrorOf({"a", "b"}), "want one MODEL, found 'a' and 'b'");
  EXPECT_NE(ErrorOf({"a", "--model", "b"}), "");
  EXPECT_TRUE(From({"a", "--model", "a"}).ok());
}

TEST(ServeConfig, OpenServersWantAKey) {
  EXPECT_NE(ErrorOf({"m", "--host", "0.0.0.0"}).find("--api-key"), std::string::npos);
  EXPECT_TRUE(From({"m", "--host", "0.0.0.0", "--api-key", "k"}).ok());
}

TEST(ServeConfig, NonLoopbackFabricMustBeSaidAloud) {
  EXPECT_NE(ErrorOf({"m", "--master-addr", "10.0.0.1"}).find("--fabric-insecure"), std::string::npos);
  EXPECT_TRUE(From({"m", "--master-addr", "10.0.0.1", "--fabric-insecure"}).ok());
}

TEST(ServeConfig, LoopbackMasterWithSeveralNodesIsRefused) {
  EXPECT_NE(ErrorOf({"m", "-pp", "2", "--nnodes", "2"}).find("--master-addr"), std::string::npos);
  EXPECT_NE(ErrorOf({"m", "-pp", "3", "--nnodes", "2", "--master-addr", "10.0.0.1", "--fabric-insecure"})
                .find("--nnodes"),
            std::string::npos);
}

TEST(ServeConfig, RangesNameTheFlagTheValueAndItsOrigin) {
  EXPECT_EQ(ErrorOf({"m", "--port", "70000"}), "--port: want 0..65535, found 70000 (command line)");
  EXPECT_EQ(ErrorOf({"m", "--pipeline-parallel-size", "0"}),
            "--pipeline-parallel-size: want 1..1024, found 0 (command line)");
  EXPECT_NE(ErrorOf({"m", "--block-size", "17"}).find("8, 16, 32 or 64"), std::string::npos);
  EXPECT_NE(ErrorOf({"m", "--distributed-executor-backend", "ray"}).find("external_launcher"),
            std::string::npos);
  EXPECT_NE(ErrorOf({"m", "-tp", "2"}).find("--tensor-parallel-size"), std::string::npos);
}

TEST(ServeConfig, HelpNamesEnvironmentAndYamlOfEachFlag) {
  const std::string help = FlagHelp();

  EXPECT_NE(help.find("--pipeline-parallel-size"), std::string::npos);
  EXPECT_NE(help.find("PACELINE_PIPELINE_PARALLEL_SIZE"), std::string::npos);
}

TEST(ServeConfig, OriginsHideKeys) {
  const auto parsed = ReadSettings({{"m", "--api-key", "secret", "--port", "1"}, {}});

  const std::string text = DescribeOrigins(parsed->settings);
  EXPECT_EQ(text.find("secret"), std::string::npos);
  EXPECT_NE(text.find("port = 1  (command line)"), std::string::npos);
}

}  // namespace
}  // namespace paceline
