// The engine against real jinja2: snippets of every feature, and the chat templates that people serve.
//
// Both golden files come from tests/numerics/template_oracle.py.
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/text/template/chat_template.h"
#include "tests/support/shared_data.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

Json Golden(const std::string& name) {
  return Json::parse(testing::ReadFileOrDie(testing::SourceDir() + "/tests/unit/template/golden/" + name));
}

// The instant of the oracle: 2026-03-05 14:07:09, local time.
RenderLimits OracleLimits() {
  std::tm local{};
  local.tm_year = 2026 - 1900;
  local.tm_mon = 2;
  local.tm_mday = 5;
  local.tm_hour = 14;
  local.tm_min = 7;
  local.tm_sec = 9;
  local.tm_isdst = -1;
  RenderLimits limits;
  limits.now = std::chrono::system_clock::from_time_t(std::mktime(&local));
  return limits;
}

StatusOr<std::string> ParseAndRender(const std::string& source, const Json& context) {
  ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Parse(source));
  return chat.Render(context, OracleLimits());
}

TEST(TemplateGolden, EverySnippetRendersOrFailsAsJinjaDoes) {
  const Json golden = Golden("snippets.json");
  ASSERT_GT(golden["snippets"].size(), 150u);
  for (const Json& snippet : golden["snippets"]) {
    Json context = golden["context"];
    if (snippet.contains("context")) context.update(snippet["context"]);

    const StatusOr<std::string> text = ParseAndRender(snippet["template"].get<std::string>(), context);

    if (snippet.contains("error")) {
      EXPECT_FALSE(text.ok()) << snippet["template"] << "\n rendered " << *text;
    } else {
      EXPECT_EQ(text.ok() ? *text : text.status().ToString(), snippet["want"].get<std::string>())
          << snippet["template"];
    }
  }
}

std::string Digest(const StatusOr<std::string>& text) {
  if (!text.ok()) return "error";
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : *text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return fmt::format("{:016x}", hash);
}

class ChatTemplates : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string shared = testing::SharedDir();
    folder_ = shared + "/data/chat_templates";
    if (shared.empty() || !std::filesystem::is_directory(folder_)) {
      GTEST_SKIP() << "no chat templates in '" << folder_ << "'";
    }
    cases_ = Json::parse(testing::ReadFileOrDie(shared + "/formats/chat_vectors.json"))["cases"];
  }

  Json Context(const std::string& name, const Json& tools) const {
    Json context = {{"messages", cases_[name]["messages"]}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
    context.update(cases_[name]["vars"]);
    context["tools"] = tools;
    return context;
  }

  std::string folder_;
  Json cases_;
};

TEST_F(ChatTemplates, RenderEveryConversationAsJinjaDoes) {
  const Json golden = Golden("chat_templates.json");
  size_t compared = 0;
  for (const auto& [file, row] : golden["cells"].items()) {
    const std::string path = folder_ + "/" + file;
    ASSERT_TRUE(std::filesystem::exists(path)) << path;
    const StatusOr<ChatTemplate> chat = ChatTemplate::Parse(testing::ReadFileOrDie(path));
    size_t equal = 0;
    for (const auto& [name, wanted] : row.items()) {
      for (size_t with_tools = 0; with_tools < 2; ++with_tools) {
        const Json context = Context(name, with_tools == 1 ? golden["tools"] : Json());
        const StatusOr<std::string> text = chat.ok() ? chat->Render(context, OracleLimits()) : chat.status();
        const std::string digest = Digest(text);
        ++compared;
        equal += digest == wanted[with_tools] ? 1 : 0;
        EXPECT_EQ(digest, wanted[with_tools].get<std::string>())
            << file << " x " << name << (with_tools == 1 ? " with tools: " : ": ")
            << (text.ok() ? *text : std::string(Message(text.status())));
      }
    }
    std::printf("%-60s %2zu of %2zu equal\n", file.c_str(), equal, row.size() * 2);
  }
  EXPECT_GE(compared, 70u * 11 * 2);
}

// The outputs themselves, for the one model of the vectors whose own template is among the 70.
TEST_F(ChatTemplates, Qwen3RendersTheTextsOfTheChatVectors) {
  const std::string path = folder_ + "/Qwen-Qwen3-0.6B.jinja";
  const StatusOr<ChatTemplate> chat = ChatTemplate::Parse(testing::ReadFileOrDie(path));
  ASSERT_TRUE(chat.ok()) << chat.status();
  const Json vectors = Json::parse(
      testing::ReadFileOrDie(testing::SharedDir() + "/formats/chat_vectors.json"))["models"]["qwen3"];
  for (const auto& [name, wanted] : vectors["results"].items()) {
    Json context = Context(name, Json());
    context["bos_token"] = vectors["bos_token"];
    context["eos_token"] = vectors["eos_token"];

    const StatusOr<std::string> text = chat->Render(context, OracleLimits());

    ASSERT_TRUE(text.ok()) << name << text.status();
    EXPECT_EQ(*text, wanted["text"].get<std::string>()) << name;
  }
}

}  // namespace
}  // namespace paceline
