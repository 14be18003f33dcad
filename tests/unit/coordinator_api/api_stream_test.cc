// Streams: the wire rules of the outside contract, section 8, one by one.
#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/coordinator_api/api_fixture.h"

namespace paceline::testing {
namespace {

using nlohmann::json;

using ApiStream = ApiTest;

TEST_F(ApiStream, HeadersAreThoseOfAnEventStream) {
  const RawResponse response = Chat({{"stream", true}});

  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(response.headers.at("cache-control"), "no-cache");
  EXPECT_EQ(response.headers.at("x-accel-buffering"), "no");
  EXPECT_EQ(response.headers.at("transfer-encoding"), "chunked");
  EXPECT_TRUE(response.complete);
}

TEST_F(ApiStream, EachEventIsOneWriteOfOneLineAndAnEmptyLine) {
  const RawResponse response = Chat({{"stream", true}});

  ASSERT_FALSE(response.chunks.empty());
  for (const std::string& chunk : response.chunks) {
    EXPECT_TRUE(chunk.starts_with("data: ")) << chunk;
    EXPECT_TRUE(chunk.ends_with("\n\n")) << chunk;
    EXPECT_EQ(chunk.find('\r'), std::string::npos);
  }
  EXPECT_EQ(response.body.size() - response.body.find("data: [DONE]\n\n"), 14u) << "nothing behind [DONE]";
}

TEST_F(ApiStream, TheRoleComesOnceWithTheFirstTokenInOneWrite) {
  const RawResponse response = Chat({{"stream", true}});

  const std::vector<json> chunks = Chunks(response);
  EXPECT_EQ(chunks[0]["choices"][0]["delta"], (json{{"role", "assistant"}, {"content", ""}}));
  for (size_t i = 1; i < chunks.size(); ++i) EXPECT_FALSE(chunks[i]["choices"][0]["delta"].contains("role"));
  const std::string& first = response.chunks[0];
  EXPECT_NE(first.find("\"role\""), std::string::npos);
  EXPECT_NE(first.find("\"content\":\"h\""), std::string::npos) << first;
}

TEST_F(ApiStream, ThereIsNoEventBeforeTheFirstToken) {
  engine_.set_script([](const GenerationRequest&) {
    Script script = Says("x");
    script.waits = true;
    return script;
  });
  Start();
  RawClient client(api_->port());
  client.Send(Post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"stream":true})"));

  client.ReadUntil("\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("data", 200ms).find("data"), std::string::npos);

  engine_.Release();
  EXPECT_NE(client.ReadUntil("[DONE]").find("\"content\":\"x\""), std::string::npos);
}

TEST_F(ApiStream, ContentHasNoFinishReasonAndTheEndHasNoContent) {
  for (const bool chat : {true, false}) {
    const RawResponse response = chat ? Chat({{"stream", true}}) : Complete({{"stream", true}});
    const std::vector<json> chunks = Chunks(response);
    ASSERT_GE(chunks.size(), 2u);
    for (size_t i = 0; i + 1 < chunks.size(); ++i) {
      EXPECT_TRUE(chunks[i]["choices"][0]["finish_reason"].is_null());
      if (chat) {
        EXPECT_TRUE(chunks[i]["choices"][0]["delta"]["content"].is_string()) << "never null";
      }
    }
    const json& last = chunks.back()["choices"][0];
    EXPECT_EQ(last["finish_reason"], "stop");
    if (chat) {
      EXPECT_EQ(last["delta"], json::object());
    } else {
      EXPECT_EQ(last["text"], "");
    }
    EXPECT_EQ(StreamedText(chunks), "hello");
    EXPECT_EQ(chunks[0]["object"], chat ? "chat.completion.chunk" : "text_completion");
  }
}

TEST_F(ApiStream, AllChunksShareOneIdOneTimeOneModel) {
  const std::vector<json> chunks =
      Chunks(Chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}}));

  EXPECT_TRUE(chunks[0]["id"].get<std::string>().starts_with("chatcmpl-"));
  for (const json& chunk : chunks) {
    EXPECT_EQ(chunk["id"], chunks[0]["id"]);
    EXPECT_EQ(chunk["created"], chunks[0]["created"]);
    EXPECT_EQ(chunk["model"], "tiny");
    EXPECT_EQ(chunk["seed"], chunks[0]["seed"]);
  }
}

TEST_F(ApiStream, B143_UsageIsNullUntilALastChunkWithoutChoices) {
  const RawResponse response = Chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}});

  const std::vector<json> chunks = Chunks(response);
  for (size_t i = 0; i + 1 < chunks.size(); ++i) {
    ASSERT_TRUE(chunks[i].contains("usage"));
    EXPECT_TRUE(chunks[i]["usage"].is_null());
  }
  EXPECT_EQ(chunks.back()["choices"], json::array());
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], 6);
  EXPECT_EQ(response.Events().back(), "[DONE]");
}

TEST_F(ApiStream, WithoutStreamOptionsThereIsNoUsageAnywhere) {
  for (const json& chunk : Chunks(Chat({{"stream", true}}))) {
    EXPECT_FALSE(chunk.contains("usage"));
    EXPECT_FALSE(chunk["choices"].empty()) << "clients read choices[0] blindly";
  }
}

TEST_F(ApiStream, TheServerCanForceUsage) {
  options_.force_include_usage = true;
  EXPECT_TRUE(Chunks(Chat({{"stream", true}})).back()["usage"].is_object());
}

TEST_F(ApiStream, ContinuousUsageCounts) {
  const std::vector<json> chunks = Chunks(Complete(
      {{"stream", true}, {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}}));

  uint32_t last = 0;
  for (const json& chunk : chunks) {
    const uint32_t count = chunk["usage"]["completion_tokens"];
    EXPECT_GE(count, last);
    last = count;
  }
  EXPECT_EQ(chunks[0]["usage"]["completion_tokens"], 1);
  EXPECT_EQ(last, 6u);
}

TEST_F(ApiStream, EveryChoiceHasItsOwnEnd) {
  engine_.set_script(
      [](const GenerationRequest& r) { return Says(std::string(1 + r.sampling.choice, 'x')); });

  const std::vector<json> chunks = Chunks(Chat({{"stream", true}, {"n", 3}}));

  int ends = 0, roles = 0;
  for (const json& chunk : chunks) {
    ends += chunk["choices"][0]["finish_reason"].is_null() ? 0 : 1;
    roles += chunk["choices"][0]["delta"].contains("role") ? 1 : 0;
  }
  EXPECT_EQ(ends, 3);
  EXPECT_EQ(roles, 3);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(StreamedText(chunks, i), std::string(static_cast<size_t>(1 + i), 'x'));
}

TEST_F(ApiStream, AChoiceThatEndsAtOnceStillSaysItsRole) {
  engine_.set_script([](const GenerationRequest&) { return Script{}; });

  const std::vector<json> chunks = Chunks(Chat({{"stream", true}}));

  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(chunks[1]["choices"][0]["finish_reason"], "stop");
}

TEST_F(ApiStream, B100_SplitCharactersAreHeldUntilWhole) {
  const std::string text = "\xF0\x9F\x98\x80 \xE6\xBC\xA2!";
  for (size_t run = 1; run <= 3; ++run) {
    engine_.set_script([&](const GenerationRequest&) { return Says(text, run); });

    const RawResponse response = Complete({{"stream", true}});

    EXPECT_EQ(StreamedText(Chunks(response)), text);
    EXPECT_EQ(response.body.find("\xEF\xBF\xBD"), std::string::npos);
    EXPECT_EQ(response.body.find("\\ufffd"), std::string::npos);
  }
}

TEST_F(ApiStream, B100_AnIncompleteTailIsReplacedOnceAtTheEnd) {
  engine_.set_script([](const GenerationRequest&) { return Says("a\xF0\x9F\x98"); });

  EXPECT_EQ(StreamedText(Chunks(Complete({{"stream", true}}))), "a\xEF\xBF\xBD");
}

TEST_F(ApiStream, PossibleStartsOfAStopStringAreHeldBack) {
  engine_.set_script([](const GenerationRequest&) { return Says("one <END of two <END>three"); });

  const RawResponse response = Complete({{"stream", true}, {"stop", "<END>"}, {"max_tokens", 50}});

  const std::vector<json> chunks = Chunks(response);
  EXPECT_EQ(StreamedText(chunks), "one <END of two ");
  EXPECT_EQ(chunks.back()["choices"][0]["stop_reason"], "<END>");
}

TEST_F(ApiStream, StopInsideAnAcceptedRunCutsTextLogprobsAndUsageAtOneToken) {
  // "ha ha ha" completes inside a run of eight accepted ids.
  engine_.set_script([](const GenerationRequest&) { return Says("say ha ha ha ha", 8); });

  const std::vector<json> chunks = Chunks(Complete({{"stream", true},
                                                    {"stop", {" ha ha"}},
                                                    {"logprobs", 2},
                                                    {"max_tokens", 50},
                                                    {"stream_options", {{"include_usage", true}}}}));

  size_t tokens = 0;
  for (const json& chunk : chunks) {
    if (chunk["choices"].empty() || chunk["choices"][0]["logprobs"].is_null()) continue;
    tokens += chunk["choices"][0]["logprobs"]["tokens"].size();
  }
  EXPECT_EQ(StreamedText(chunks), "say");
  EXPECT_EQ(tokens, 9u);
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], 9);
}

TEST_F(ApiStream, LogprobsComeInTheChunkOfTheirTokenAndOffsetsGoOn) {
  engine_.set_script([](const GenerationRequest&) { return Says("abcd", 2); });

  const std::vector<json> chunks = Chunks(Complete({{"stream", true}, {"logprobs", 1}}));

  EXPECT_EQ(chunks[0]["choices"][0]["text"], "ab");
  EXPECT_EQ(chunks[0]["choices"][0]["logprobs"]["tokens"], (json{"a", "b"}));
  EXPECT_EQ(chunks[0]["choices"][0]["logprobs"]["text_offset"], (json{0, 1}));
  EXPECT_EQ(chunks[1]["choices"][0]["logprobs"]["text_offset"], (json{2, 3}));
  EXPECT_EQ(chunks[2]["choices"][0]["logprobs"]["tokens"], (json{"</s>"})) << "the end id has its entry too";
}

TEST_F(ApiStream, StreamIntervalGathersTokens) {
  options_.stream_interval = 4;
  engine_.set_script([](const GenerationRequest&) { return Says("abcdefghij"); });

  const std::vector<json> chunks = Chunks(Complete({{"stream", true}}));

  std::vector<std::string> texts;
  for (const json& chunk : chunks) texts.push_back(chunk["choices"][0]["text"]);
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "bcde", "fghi", "j", ""}));
}

TEST_F(ApiStream, TokenIdsAreStreamedWhenAsked) {
  engine_.set_script([](const GenerationRequest&) { return Says("ab"); });

  const std::vector<json> chunks = Chunks(Complete({{"stream", true}, {"return_token_ids", true}}));

  EXPECT_EQ(chunks[0]["choices"][0]["prompt_token_ids"], (json{kBos, 'p'}));
  EXPECT_EQ(chunks[0]["choices"][0]["token_ids"], (json{'a'}));
  EXPECT_FALSE(chunks[1]["choices"][0].contains("prompt_token_ids"));
}

TEST_F(ApiStream, B145_AnErrorBehindThe200IsOneEventWithTheUsageSoFarAndNoDone) {
  engine_.set_script([](const GenerationRequest&) {
    Script script = Says("hello");
    script.breaks = UnavailableError("stage 1 is lost");
    return script;
  });

  const RawResponse response = Complete(
      {{"stream", true}, {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}});

  EXPECT_EQ(response.status, 200);
  const std::vector<std::string> events = response.Events();
  const json error = json::parse(events.back());
  EXPECT_EQ(error["error"]["code"], "unavailable");
  EXPECT_EQ(error["usage"]["completion_tokens"], 5);
  EXPECT_EQ(response.body.find("[DONE]"), std::string::npos);
  EXPECT_EQ(StreamedText(Chunks(response)), "hello");
}

TEST_F(ApiStream, ASilentPrefillIsKeptAliveByEmptyLines) {
  options_.sse_ping_interval = 50ms;
  engine_.set_script([](const GenerationRequest&) {
    Script script = Says("x");
    script.waits = true;
    return script;
  });
  Start();
  RawClient client(api_->port());
  client.Send(Post("/v1/completions", R"({"prompt":"x","stream":true})"));

  const std::string raw = client.ReadUntil("1\r\n\n\r\n1\r\n\n\r\n");
  engine_.Release();

  EXPECT_EQ(raw.find("data"), std::string::npos);
  EXPECT_EQ(raw.find(": ping"), std::string::npos) << "comment lines break clients";
  EXPECT_NE(client.ReadUntil("[DONE]").find("[DONE]"), std::string::npos);
}

TEST_F(ApiStream, B101_ASlowReaderPausesTheEngine) {
  options_.http.stream_buffer_bytes = 200'000;
  options_.max_model_len = 100'000;
  std::string text;
  for (int i = 0; i < 12'000; ++i) text += "\xE6\xBC\xA2";  // 36 kB of text, some 11 MB of events
  engine_.set_script([&](const GenerationRequest&) {
    Script script = Says(text, 3);
    script.step_time = 400us;  // slow enough for a pause to reach it, under sanitizers too
    return script;
  });
  Start();
  RawClient client(api_->port());
  client.SetReceiveBuffer(32768);
  client.Send(Post("/v1/completions", R"({"prompt":"x","stream":true,"max_tokens":99000,"logprobs":8})"));

  ASSERT_TRUE(Eventually([&] { return engine_.num_pauses() > 0; }, 60s));

  const RawResponse response = client.Read(60s);
  EXPECT_TRUE(response.complete);
  EXPECT_TRUE(StreamedText(Chunks(response)) == text);
  EXPECT_EQ(engine_.num_cancelled(), 0u);
}

}  // namespace
}  // namespace paceline::testing
