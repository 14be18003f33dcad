// What ChatTemplate promises beyond equality with jinja2: limits, refusals by name, no way to the host.
#include "common/text/template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

namespace paceline {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const Json kChat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"add_generation_prompt", true}};

Status ParseStatus(const std::string& source) { return ChatTemplate::Parse(source).status(); }

StatusOr<std::string> Render(const std::string& source, const Json& context = kChat,
                             const RenderLimits& limits = {}) {
  ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Parse(source));
  return chat.Render(context, limits);
}

void ExpectExhausted(const std::string& source, const std::string& limit, const RenderLimits& limits = {}) {
  const StatusOr<std::string> text = Render(source, kChat, limits);
  ASSERT_FALSE(text.ok()) << source << " rendered " << text->size() << " bytes";
  EXPECT_EQ(text.status().code(), absl::StatusCode::kResourceExhausted) << source << text.status();
  EXPECT_THAT(std::string(Message(text.status())), HasSubstr(limit)) << source;
}

TEST(ChatTemplate, B121_NestedLoopsStopAtTheStepBudgetAndFailTheLoadCheck) {
  const std::string source = "{% for i in range(25000) %}{% for j in range(25000) %}{% endfor %}{% endfor %}";

  ExpectExhausted(source, "steps_max");

  const Status status = CheckTemplate(source);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(ChatTemplate, B122_AHugeRepetitionStopsAtTheOutputCapBeforeItIsBuilt) {
  ExpectExhausted("{{ 'A' * 10000000 }}", "output_bytes_max");
  ExpectExhausted("{{ 'A' * 9000000000000000000 }}", "output_bytes_max");
  ExpectExhausted("{% for i in range(200000) %}{% endfor %}", "range");
  ExpectExhausted("{% set a = 'A' * 8000000 %}{{ a }}{{ a }}", "output_bytes_max");
}

TEST(ChatTemplate, B124_TemplatesThatReachForObjectInternalsAreRefusedAtParse) {
  for (const char* source : {"{{ ''.__class__.__mro__ }}", "{{ messages['__class__'] }}",
                             "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
                             "{% set ns = namespace() %}{% set ns.__init__ = 1 %}"}) {
    const Status status = ParseStatus(source);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << source;
    EXPECT_THAT(std::string(Message(status)), HasSubstr("object internals")) << source;
  }
}

TEST(ChatTemplate, B124_NothingOfTheHostIsReachableByComputedNames) {
  EXPECT_EQ(*Render("{{ ''['__cl' ~ 'ass__'] is defined }}{{ self is defined }}{{ config is defined }}"),
            "FalseFalseFalse");
  EXPECT_FALSE(Render("{{ '{0.__class__}'.format('x') }}").ok());
  EXPECT_FALSE(Render("{{ [''] | map(attribute='__class__.__mro__') | list }}").ok());
}

TEST(ChatTemplate, B125_EmptyAssistantTurnsRenderAsAnyOther) {
  Json context = {{"messages", Json::array()}};
  for (const auto& [role, content] : std::vector<std::pair<std::string, std::string>>{
           {"user", "a"}, {"assistant", ""}, {"user", "b"}, {"assistant", ""}, {"user", "c"}}) {
    context["messages"].push_back({{"role", role}, {"content", content}});
  }

  const auto text = Render(
      "{% for m in messages %}<{{ m.role }}>{% if m.content %}{{ m.content | trim }}{% endif %}{% endfor %}",
      context);

  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "<user>a<assistant><user>b<assistant><user>c");
}

// Small enough that the tests end soon under the sanitizers too.
RenderLimits SmallLimits() {
  RenderLimits limits;
  limits.output_bytes_max = 1 << 20;
  limits.memory_bytes_max = 4 << 20;
  limits.work_bytes_max = 32 << 20;
  return limits;
}

TEST(ChatTemplate, EveryWayToGrowIsBounded) {
  const RenderLimits small = SmallLimits();
  ExpectExhausted(
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "memory_bytes_max", small);
  ExpectExhausted("{% set l = [1] %}{% for i in range(99) %}{% set _ = l.extend(l) %}{% endfor %}",
                  "memory_bytes_max", small);
  ExpectExhausted("{% set s = 'A' * 400000 %}{{ s | list | length }}", "memory_bytes_max", small);
  ExpectExhausted("{% set s = 'A' * 400000 %}{{ s.split('A') | length }}", "memory_bytes_max", small);
  ExpectExhausted("{{ [0] * 90000000000000000 }}", "memory_bytes_max", small);
  ExpectExhausted("{% set s = 'A' * 100000 %}{{ s | replace('A', s) }}", "output_bytes_max", small);
  ExpectExhausted("{% set s = 'A' * 20000 %}{{ s.join(s) }}", "output_bytes_max", small);
  ExpectExhausted("{{ 'a\nb' | indent(9000000) }}", "output_bytes_max", small);
  ExpectExhausted("{{ [1, 2] | tojson(indent=9000000) }}", "output_bytes_max", small);
  ExpectExhausted("{{ 'a'.rjust(9000000000) }}", "output_bytes_max", small);
  ExpectExhausted("{{ 'a' | center(9000000000) }}", "output_bytes_max", small);
  ExpectExhausted("{{ [1] | batch(9000000000, 0) | list }}", "memory_bytes_max", small);
  ExpectExhausted(
      "{% set ns = namespace(s='A') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "output_bytes_max", small);
  ExpectExhausted(
      "{% set ns = namespace(s=['A']) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}"
      "{{ ns.s }}",
      "", small);
}

TEST(ChatTemplate, WorkThatStepsDoNotSeeIsBounded) {
  const RenderLimits small = SmallLimits();
  ExpectExhausted(
      "{% set s = 'A' * 1000000 %}{% for i in range(20000) %}{% if 'B' in s %}{% endif %}{% endfor %}",
      "work_bytes_max", small);
  ExpectExhausted("{% set s = 'A' * 1000000 %}{% for i in range(20000) %}{% set t = s[::-1] %}{% endfor %}",
                  "work_bytes_max", small);
}

TEST(ChatTemplate, SearchesThatNoStepCountSeesArePaidFor) {
  ExpectExhausted(
      "{% set d = {} %}{% for i in range(100000) %}{% set _ = d.setdefault(i + 0.5, i) %}{% endfor %}",
      "work_bytes_max");
  std::string many_names;
  for (int i = 0; i < 2000; ++i) many_names += "{% set v" + std::to_string(i) + " = 1 %}";
  EXPECT_THAT(std::string(Message(ParseStatus(many_names))), HasSubstr("variable names"));
}

TEST(ChatTemplate, RecursionIsBounded) {
  ExpectExhausted("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "depth_max");
  ExpectExhausted(
      "{% macro m() %}{{ caller() }}{% call m() %}y{% endcall %}{% endmacro %}{% call m() %}x{% endcall %}",
      "depth_max");
  ExpectExhausted("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "nests deeper");
  ExpectExhausted("{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}", "nests deeper");
  ExpectExhausted(
      "{% set a = [] %}{% set _ = a.append(a) %}{% set b = [] %}{% set _ = b.append(b) %}{{ a == b }}",
      "nests deeper");
  EXPECT_FALSE(ParseStatus("{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}").ok());
  EXPECT_FALSE(ParseStatus("{{ " + std::string(100000, '-') + "1 }}").ok());
  std::string sum = "{{ 1";
  for (int i = 0; i < 50000; ++i) sum += "+1";
  EXPECT_FALSE(ParseStatus(sum + " }}").ok());
  std::string blocks;
  for (int i = 0; i < 50000; ++i) blocks += "{% if 1 %}";
  EXPECT_FALSE(ParseStatus(blocks).ok());
}

TEST(ChatTemplate, ADeepChainOfListsIsFreedWithoutRecursion) {
  const auto text = Render(
      "{% set ns = namespace(l=[]) %}{% for i in range(90000) %}{% set ns.l = [ns.l] %}{% endfor %}done");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "done");

  const auto downward = Render(
      "{% set root = [] %}{% set ns = namespace(l=root) %}{% for i in range(60000) %}"
      "{% set next = [] %}{% set _ = ns.l.append(next) %}{% set ns.l = next %}{% endfor %}done");
  ASSERT_TRUE(downward.ok()) << downward.status();
}

TEST(ChatTemplate, UnsupportedConstructsAreRefusedByNameAndLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {"\n\n{% include 'x' %}", "line 3: tag 'include'"},
      {"{% import 'x' as y %}", "tag 'import'"},
      {"{% extends 'x' %}", "tag 'extends'"},
      {"{% block b %}{% endblock %}", "tag 'block'"},
      {"{{ x | attr('y') }}", "filter 'attr'"},
      {"\n{{ x | pprint }}", "line 2: filter 'pprint'"},
      {"{{ x is strange }}", "test 'strange'"},
      {"{{ f(*xs) }}", "argument unpacking"},
      {"{% for x in xs recursive %}{% endfor %}", "recursive for loop"},
      {"{% if messages %}", "before 'endif'"},
  };
  for (const auto& [source, wanted] : kCases) {
    EXPECT_THAT(std::string(Message(ParseStatus(source))), HasSubstr(wanted)) << source;
  }
  EXPECT_FALSE(ParseStatus("\xFF{{ x }}").ok());
  EXPECT_FALSE(ParseStatus(std::string(2 << 20, 'x')).ok());
}

TEST(ChatTemplate, TheTemplatesOwnRefusalIsItsMessageAndNothingElse) {
  const auto text = Render("{{ raise_exception('Roles must alternate: ' ~ messages[0].role) }}");

  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(Message(text.status())), "Roles must alternate: user");
}

TEST(ChatTemplate, OtherErrorsNameTheLineAndTheCause) {
  EXPECT_EQ(std::string(Message(Render("a\n{{ messages[0].nope.deep }}").status())),
            "chat template line 2: 'nope' is undefined");
  EXPECT_THAT(std::string(Message(Render("{{ 'a'.encode() }}").status())), HasSubstr("'encode'"));
  EXPECT_THAT(std::string(Message(Render("{{ 'a' + 1 }}").status())),
              HasSubstr("'+' does not work between str and int"));
}

TEST(ChatTemplate, TheLoadCheckPassesATemplateThatRefusesTheTinyChatItself) {
  EXPECT_TRUE(CheckTemplate("{% for m in messages %}{{ m.content }}{% endfor %}").ok());
  EXPECT_TRUE(CheckTemplate("{{ raise_exception('needs a system turn') }}").ok());
  EXPECT_FALSE(CheckTemplate("{{ messages.nothing.here }}").ok());
  EXPECT_FALSE(CheckTemplate("{% if %}").ok());
}

TEST(ChatTemplate, ContentFormatFollowsTheLoopsOfTheTemplate) {
  const auto iterates = [](const char* source) { return ChatTemplate::Parse(source)->IteratesOverContent(); };
  EXPECT_FALSE(iterates("{% for m in messages %}{{ m.content }}{% endfor %}"));
  EXPECT_FALSE(iterates("{% for m in messages %}{% for t in m.tool_calls %}{{ t }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(iterates("{% for m in messages %}{% for p in m['content'] %}{{ p }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(
      iterates("{% for m in messages[1:] %}{% for p in m.content | list %}{{ p }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(
      iterates("{% set ms = messages %}{% for m in ms %}{% set c = m.content %}"
               "{% for p in c %}{{ p }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(
      iterates("{% macro show(msg) %}{% set c = msg.get('content') %}{% for p in c %}{{ p }}{% endfor %}"
               "{% endmacro %}{% for m in messages %}{{ show(m) }}{% endfor %}"));
}

TEST(ChatTemplate, RendersOnSeveralThreadsAtOnce) {
  const auto chat = ChatTemplate::Parse(
      "{% set l = [] %}{% for m in messages %}{% set _ = l.append(m.content ~ '!') %}{% endfor %}{{ l | join "
      "}}");
  ASSERT_TRUE(chat.ok());
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i)
        equal[static_cast<size_t>(t)] += chat->Render(kChat).value() == "Hi!" ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(equal, ::testing::Each(200));
}

TEST(ChatTemplate, TheRequestsContextIsNotChangedByARender) {
  Json context = kChat;
  const auto text = Render("{% set _ = messages.pop() %}{{ messages | length }}", context);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "0");
  EXPECT_EQ(context, kChat);
}

TEST(ChatTemplate, LargeContextsDoNotCountAgainstTheTemplatesMemory) {
  Json context = kChat;
  context["messages"][0]["content"] = std::string(4 << 20, 'x');
  RenderLimits limits;
  limits.memory_bytes_max = 64 << 10;
  const auto text = Render("{{ messages[0].content }}", context, limits);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->size(), size_t{4} << 20);
}

}  // namespace
}  // namespace paceline
