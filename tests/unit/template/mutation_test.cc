// Damaged templates: whatever bytes a model file holds, parsing and rendering end within the limits, without
// a crash (run under the sanitizers too). A failing seed prints itself and its source.
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "common/text/template/chat_template.h"
#include "tests/support/shared_data.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> Seeds() {
  const Json golden =
      Json::parse(testing::ReadFileOrDie(testing::SourceDir() + "/tests/unit/template/golden/snippets.json"));
  std::vector<std::string> seeds;
  for (const Json& snippet : golden["snippets"]) seeds.push_back(snippet["template"].get<std::string>());
  const std::string folder = testing::SharedDir() + "/data/chat_templates";
  if (!std::filesystem::is_directory(folder)) return seeds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    seeds.push_back(testing::ReadFileOrDie(entry.path()));
  }
  return seeds;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& seeds, uint32_t seed) : seeds_(seeds), random_(seed) {}

  std::string Make() {
    std::string text = Pick();
    const size_t edits = 1 + Below(3);
    for (size_t i = 0; i < edits; ++i) Edit(text);
    return text;
  }

 private:
  size_t Below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }
  const std::string& Pick() { return seeds_[Below(seeds_.size())]; }

  void Edit(std::string& text) {
    static constexpr std::string_view kPieces[] = {"{{",
                                                   "}}",
                                                   "{%",
                                                   "%}",
                                                   "{#",
                                                   "#}",
                                                   "-",
                                                   "|",
                                                   "(",
                                                   ")",
                                                   "[",
                                                   "]",
                                                   "messages",
                                                   "'",
                                                   "\\",
                                                   "1e999",
                                                   " is ",
                                                   "99999999999",
                                                   " if ",
                                                   "~",
                                                   " not in ",
                                                   "{% endif %}",
                                                   "*",
                                                   "**",
                                                   "//",
                                                   " else ",
                                                   "{% break %}",
                                                   "| map('list') | list",
                                                   "| tojson(indent=3)",
                                                   "[::-1]",
                                                   "loop",
                                                   "* 1000",
                                                   ".items()",
                                                   "\xE2\x82"};
    const size_t at = Below(text.size() + 1);
    switch (Below(4)) {
      case 0:
        text.erase(at, Below(20));
        break;
      case 1:
        text.insert(at, kPieces[Below(std::size(kPieces))]);
        break;
      case 2: {
        const std::string& other = Pick();
        const size_t from = Below(other.size() + 1);
        text.insert(at, other.substr(from, Below(60)));
        break;
      }
      default:
        if (at < text.size()) text[at] = static_cast<char>(Below(256));
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937 random_;
};

// Not the wall clock: a busy machine must not fail the test.
double ThreadCpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

TEST(TemplateMutation, DamagedTemplatesEndWithinTheLimits) {
  const std::vector<std::string> seeds = Seeds();
  const Json context = Json::parse(R"({"messages": [
      {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße"},
      {"role": "assistant", "content": "", "tool_calls": [{"id": "call_0001", "type": "function",
       "function": {"name": "get", "arguments": {"n": 3}}}]}, {"role": "tool", "content": "21"}],
      "tools": [{"type": "function", "function": {"name": "get", "parameters": {"properties": {}}}}],
      "add_generation_prompt": true, "bos_token": "<s>", "xs": [3, 1, 2], "d": {"a": [1]}, "n": 7})");
  RenderLimits limits;
  limits.steps_max = 20'000;
  limits.output_bytes_max = 256 << 10;
  limits.memory_bytes_max = 4 << 20;
  limits.work_bytes_max = 32 << 20;
  size_t rendered = 0;
  size_t refused = 0;

  for (uint32_t seed = 0; seed < 6000; ++seed) {
    const std::string source = Mutator(seeds, seed).Make();
    SCOPED_TRACE(seed);
    const double start = ThreadCpuSeconds();
    StatusOr<ChatTemplate> chat = ChatTemplate::Parse(source);
    const StatusOr<std::string> text = chat.ok() ? chat->Render(context, limits) : chat.status();
    const double took = ThreadCpuSeconds() - start;

    ASSERT_LT(took, 5.0) << source;
    if (text.ok()) {
      ++rendered;
      ASSERT_LE(text->size(), limits.output_bytes_max) << source;
    } else {
      ++refused;
      ASSERT_NE(text.status().code(), absl::StatusCode::kInternal) << source << text.status();
    }
  }

  // Both outcomes must be common, or the mutations test only half of the engine.
  EXPECT_GT(rendered, 600u);
  EXPECT_GT(refused, 600u);
}

}  // namespace
}  // namespace paceline
