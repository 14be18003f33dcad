#include "common/config/layers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace paceline {
namespace {

class TempYaml {
 public:
  explicit TempYaml(const std::string& text) {
    path_ = std::filesystem::temp_directory_path() / fmt::format("paceline-{}-{}.yaml", getpid(), counter_++);
    std::ofstream(path_) << text;
  }
  ~TempYaml() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  static inline int counter_ = 0;
  std::filesystem::path path_;
};

StatusOr<ParsedSettings> FromArgs(std::vector<std::string> args) {
  return ReadSettings({std::move(args), {}});
}

std::string ErrorOf(const SettingsInput& input) { return std::string(Message(ReadSettings(input).status())); }

TEST(Layers, CommandLineBeatsEnvironmentBeatsFile) {
  const TempYaml file("port: 1\nhost: 127.0.0.9\nmax_num_seqs: 3\n");
  const auto parsed = ReadSettings(
      {{"--config", file.path(), "--port", "3"}, {"PACELINE_PORT=2", "PACELINE_MAX_NUM_SEQS=7"}});

  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->settings.GetInt("port", 0), 3);
  EXPECT_EQ(parsed->settings.Find("port")->origin, "command line");
  EXPECT_EQ(parsed->settings.GetInt("max-num-seqs", 0), 7);
  EXPECT_EQ(parsed->settings.Find("max-num-seqs")->origin, "environment PACELINE_MAX_NUM_SEQS");
  EXPECT_EQ(parsed->settings.GetString("host", ""), "127.0.0.9");
  EXPECT_EQ(parsed->settings.Find("host")->origin, file.path() + ":2");
}

TEST(Layers, TheRequestsCommandIsRead) {
  const auto parsed =
      FromArgs({"unsloth/llama-3-8b-Instruct", "--tensor-parallel-size", "2", "--pipeline-parallel-size", "2",
                "--speculative_config", R"({"model": "m", "num_speculative_tokens": 3})",
                "--gpu-memory-utilization", "0.85"});

  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->positional, std::vector<std::string>{"unsloth/llama-3-8b-Instruct"});
  EXPECT_EQ(parsed->settings.GetInt("tensor-parallel-size", 0), 2);
  EXPECT_EQ(parsed->settings.Find("speculative-config")->value["num_speculative_tokens"], 3);
  EXPECT_EQ(parsed->settings.GetDouble("gpu-memory-utilization", 0), 0.85);
}

TEST(Layers, DottedKeysChangeOneEntryAndPlusAppends) {
  const auto parsed =
      FromArgs({"--speculative-config", R"({"method": "ngram", "x": [1]})", "--speculative-config.method",
                "draft_model", "--speculative-config.x+", "2", "--speculative-config.a.b=true"});

  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->settings.Find("speculative-config")->value.dump(),
            R"({"a":{"b":true},"method":"draft_model","x":[1,2]})");
}

TEST(Layers, UnknownNamesAreRefusedWithTheNearest) {
  EXPECT_EQ(ErrorOf({{"--max-model-length", "3"}, {}}),
            "unknown flag 'max-model-length': did you mean --max-model-len?");
  EXPECT_EQ(ErrorOf({{"--tp-size", "3"}, {}}), "unknown flag 'tp-size': use --tensor-parallel-size");
  EXPECT_EQ(ErrorOf({{}, {"PACELINE_PROT=1"}}),
            "PACELINE_PROT: unknown variable 'prot': did you mean --port?");
  const TempYaml file("host: 127.0.0.1\nprt: 1\n");
  EXPECT_EQ(ErrorOf({{"--config", file.path()}, {}}),
            file.path() + ":2: unknown key 'prt': did you mean --port?");
}

TEST(Layers, YamlBooleansAreOnlyTrueAndFalse) {
  const TempYaml yes("headless: yes\n");
  const TempYaml text("chat-template: no\n");

  EXPECT_EQ(ErrorOf({{"--config", yes.path()}, {}}),
            yes.path() + ":1: headless: want true or false, found 'yes'");
  EXPECT_EQ(ReadSettings({{"--config", text.path()}, {}})->settings.GetString("chat-template", ""), "no");
}

TEST(Layers, RepeatedYamlKeysAreRefused) {
  const TempYaml file("max-num-seqs: 1\nmax_num_seqs: 2\n");

  EXPECT_EQ(ErrorOf({{"--config", file.path()}, {}}), file.path() + ":2: key 'max-num-seqs' is repeated");
}

TEST(Layers, YamlMappingsAreJsonValues) {
  const TempYaml file("speculative-config:\n  method: ngram\n  num_speculative_tokens: 4\n");
  const auto parsed = ReadSettings({{"--config", file.path()}, {}});

  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->settings.Find("speculative-config")->value.dump(),
            R"({"method":"ngram","num_speculative_tokens":4})");
}

TEST(Layers, KubernetesServiceVariablesAreRecognised) {
  EXPECT_NE(ErrorOf({{}, {"PACELINE_PORT=tcp://10.0.0.1:8000"}}).find("enableServiceLinks: false"),
            std::string::npos);
  EXPECT_NE(ErrorOf({{}, {"PACELINE_SERVICE_HOST=10.0.0.1"}}).find("enableServiceLinks: false"),
            std::string::npos);
}

TEST(Layers, VllmVariablesAreNamedNotRead) {
  const auto parsed = ReadSettings({{}, {"VLLM_PORT=1"}});

  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->settings.Find("port"), nullptr);
  ASSERT_EQ(parsed->warnings.size(), 1u);
  EXPECT_NE(parsed->warnings[0].find("PACELINE_PORT"), std::string::npos);
}

TEST(Layers, BooleansNegateAndTakeValues) {
  EXPECT_FALSE(
      FromArgs({"--no-enable-request-id-headers"})->settings.GetBool("enable-request-id-headers", true));
  EXPECT_TRUE(FromArgs({"--headless"})->settings.GetBool("headless", false));
  EXPECT_FALSE(FromArgs({"--headless=maybe"}).ok());
}

TEST(Layers, MissingValuesAndFilesAreNamed) {
  EXPECT_EQ(ErrorOf({{"--port"}, {}}), "--port wants a value");
  EXPECT_EQ(ErrorOf({{"--config", "/nowhere.yaml"}, {}}), "--config: no file '/nowhere.yaml'");
  EXPECT_EQ(ErrorOf({{"--port", "12x"}, {}}), "--port: want an integer with k, K, m, M, g or G, found '12x'");
  EXPECT_NE(ErrorOf({{"--ssl-keyfile", "x"}, {}}).find("--ssl-keyfile is refused"), std::string::npos);
}

}  // namespace
}  // namespace paceline
