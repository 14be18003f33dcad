// What a client does wrong is 4xx with the error object, never 5xx and never silence; the engine hears of
// none of it.
#include <gmock/gmock.h>

#include "coordinator/api/openai_request.h"
#include "tests/unit/coordinator_api/api_fixture.h"

namespace paceline::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

using ApiErrors = ApiTest;

std::string Deep(int levels) { return std::string(levels, '[') + std::string(levels, ']'); }

TEST_F(ApiErrors, BodiesThatAreNotJsonAre400OnEveryRoute) {
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
    for (const char* body : {"", "{", "nonsense", "[]", "3", "null", "{\"a\":1}x", "{\"a\":01}", "{'a':1}",
                             "{\"model\":\"tiny\",\"model\":\"tiny\"}", "{\"temperature\":1e999}"}) {
      ExpectError(Send(Post(path, body)), 400, "invalid_value");
    }
  }
  EXPECT_TRUE(engine_.requests().empty());
}

TEST_F(ApiErrors, B131_BytesOfAnotherEncodingAre400) {
  ExpectError(Send(Post("/v1/completions", "{\"prompt\":\"\xC4\xE3\xBA\xC3\"}")), 400, "invalid_value");
}

TEST_F(ApiErrors, B133_ATextThatEndsInHalfACharacterIs400) {
  ExpectError(Send(Post("/v1/completions", "{\"prompt\":\"caf\xC3\"}")), 400, "invalid_value");
}

TEST_F(ApiErrors, B134_LoneSurrogatesAre400OnEveryRoute) {
  for (const char* text : {R"(\udc49)", R"(\ud83d)", R"(\ud83dx)", R"(\ud83d\ud83d)"}) {
    const std::string prompt = fmt::format(R"({{"prompt":"{}"}})", text);
    const std::string chat = fmt::format(R"({{"messages":[{{"role":"user","content":"{}"}}]}})", text);
    ExpectError(Send(Post("/v1/completions", prompt)), 400, "invalid_value");
    ExpectError(Send(Post("/tokenize", prompt)), 400, "invalid_value");
    ExpectError(Send(Post("/v1/chat/completions", chat)), 400, "invalid_value");
    ExpectError(Send(Post("/detokenize", fmt::format(R"({{"tokens":[1],"x":"{}"}})", text))), 400,
                "invalid_value");
  }
}

TEST_F(ApiErrors, NestingIsBoundedWhileReading) {
  ExpectError(Send(Post("/v1/completions", "{\"prompt\":" + Deep(64) + "}")), 400, "invalid_value");
  const RawResponse deep =
      Send(Post("/v1/completions", "{\"prompt\":\"x\",\"metadata\":" + Deep(500'000) + "}"));
  ExpectError(deep, 400, "invalid_value");
  EXPECT_THAT(deep.body, HasSubstr("64"));
  EXPECT_EQ(Send(Post("/v1/completions", "{\"prompt\":\"x\",\"metadata\":" + Deep(63) + "}")).status, 200);
}

TEST_F(ApiErrors, AnObjectOfManyKeysCostsLinearTime) {
  std::string body = "{\"prompt\":\"x\"";
  for (int i = 0; i < 200'000; ++i) body += fmt::format(",\"k{}\":1", i);
  body += "}";
  const Instant start = MonotonicNow();

  EXPECT_EQ(Send(Post("/v1/completions", body)).status, 200) << "fields named nowhere are ignored";

  // Quadratic work over the keys takes minutes; the bound leaves room for sanitizers on a busy machine.
  EXPECT_LT(MonotonicNow() - start, 15s);
}

TEST_F(ApiErrors, B136_B137_IdsOutsideTheVocabularyAre400NamingThem) {
  const RawResponse bias = Complete({{"logit_bias", {{"191222", -100}}}});
  ExpectError(bias, 400, "invalid_value", "logit_bias");
  EXPECT_THAT(bias.body, HasSubstr("191222"));
  ExpectError(Complete({{"stop_token_ids", {260}}}), 400, "invalid_value", "stop_token_ids");
  ExpectError(Complete({{"allowed_token_ids", {-1}}}), 400, "invalid_value", "allowed_token_ids");
  ExpectError(Complete({{"allowed_token_ids", json::array()}}), 400, "invalid_value", "allowed_token_ids");
  ExpectError(Complete({{"prompt", {1, 260}}}), 400, "invalid_value", "prompt");
  ExpectError(Complete({{"prompt", {1, "a"}}}), 400, "invalid_value", "prompt");
  ExpectError(Complete({{"prompt", {"a", json::array({1})}}}), 400, "invalid_value", "prompt");
  EXPECT_EQ(Complete({{"stop_token_ids", {259}}, {"logit_bias", {{"259", 1}}}}).status, 200);
}

TEST_F(ApiErrors, AModelWithFewerRowsThanTheTokenizerHasIdsSetsTheBound) {
  options_.vocab_size = 258;
  options_.eos_token_ids = {kEos};
  ExpectError(Complete({{"prompt", {258}}}), 400, "invalid_value", "prompt");
  ExpectError(Complete({{"prompt", "<|im_start|>"}}), 400, "invalid_value", "prompt");
}

TEST_F(ApiErrors, B140_MaxTokensBelowOneIs400) {
  // echo is refused as a whole so far, which covers scoring with max_tokens 0.
  ExpectError(Complete({{"max_tokens", 0}, {"echo", true}, {"logprobs", 1}}), 400, "unsupported_parameter",
              "echo");
  ExpectError(Complete({{"max_tokens", 0}}), 400, "invalid_value", "max_tokens");
  ExpectError(Complete({{"max_tokens", -5}}), 400, "invalid_value", "max_tokens");
}

TEST_F(ApiErrors, B148_AbsurdCountsAre400) {
  for (const json& n :
       {json(9223372036854775807), json(0), json(1.5), json(17), json(-1), json("2"), json(1e30)}) {
    ExpectError(Complete({{"n", n}}), 400, "invalid_value", "n");
  }
  EXPECT_EQ(Complete({{"n", 2.0}}).status, 200) << "2.0 is an integer";
  ExpectError(Complete({{"n", 2}, {"temperature", 0}}), 400, "invalid_value", "n");
}

TEST_F(ApiErrors, B155_ToolsAreRefusedBeforeTheEngine) {
  const json tool = {{"type", "function"},
                     {"function", {{"name", "f"}, {"parameters", {{"type", 5}, {"pattern", "["}}}}}};
  ExpectError(Chat({{"tools", json::array({tool})}}), 400, "unsupported_parameter", "tools");
  ExpectError(Chat({{"tool_choice", "required"}}), 400, "unsupported_parameter", "tool_choice");
  ExpectError(Chat({{"response_format", {{"type", "json_object"}}}}), 400, "unsupported_parameter",
              "response_format");
  EXPECT_EQ(
      Chat({{"tools", nullptr}, {"tool_choice", "none"}, {"response_format", {{"type", "text"}}}}).status,
      200);
}

TEST_F(ApiErrors, FieldsThatCannotBeHonouredAreRefusedByName) {
  for (const char* field : {"suffix", "use_beam_search", "length_penalty", "logits_processors",
                            "truncate_prompt_tokens", "prompt_logprobs", "echo", "priority"}) {
    ExpectError(Complete({{field, 1}}), 400, "unsupported_parameter", field);
  }
  EXPECT_EQ(Complete({{"echo", false}, {"suffix", nullptr}, {"use_beam_search", false}}).status, 200);
  EXPECT_EQ(Complete({{"user", "u"},
                      {"store", true},
                      {"metadata", {{"a", 1}}},
                      {"service_tier", "x"},
                      {"parallel_tool_calls", 3},
                      {"nobody_knows", {1, 2}}})
                .status,
            200);
}

TEST_F(ApiErrors, StreamOptionsNeedAStream) {
  ExpectError(Complete({{"stream_options", {{"include_usage", true}}}}), 400, "invalid_value",
              "stream_options");
  ExpectError(Complete({{"stream", true}, {"stream_options", {{"include_usage", 1}}}}), 400, "invalid_value",
              "stream_options");
  ExpectError(Complete({{"stream", true}, {"stream_options", {{"other", true}}}}), 400,
              "unsupported_parameter", "stream_options");
  ExpectError(Chat({{"top_logprobs", 3}}), 400, "invalid_value", "top_logprobs");
}

TEST_F(ApiErrors, CapsAreTestedOneOverAndOneUnder) {
  const auto strings = [](size_t count) { return json(std::vector<std::string>(count, "s")); };
  EXPECT_EQ(Complete({{"stop", strings(16)}}).status, 200);
  ExpectError(Complete({{"stop", strings(17)}}), 400, "invalid_value", "stop");
  EXPECT_EQ(Complete({{"stop", std::string(256, 's')}}).status, 200);
  ExpectError(Complete({{"stop", std::string(257, 's')}}), 400, "invalid_value", "stop");
  ExpectError(Complete({{"stop", ""}}), 400, "invalid_value", "stop");
  ExpectError(Complete({{"stop", {"a", ""}}}), 400, "invalid_value", "stop");
  EXPECT_EQ(Complete({{"logprobs", 20}}).status, 200);
  ExpectError(Complete({{"logprobs", 21}}), 400, "invalid_value", "logprobs");
  EXPECT_EQ(Complete({{"n", 16}}).status, 200);
  EXPECT_EQ(Complete({{"min_tokens", 16}}).status, 200);
  ExpectError(Complete({{"min_tokens", 17}}), 400, "invalid_value", "min_tokens");

  options_.limits.logit_bias_entries = 2;
  options_.limits.chat_messages = 2;
  options_.limits.queued_requests = 4;
  Start();
  EXPECT_EQ(Complete({{"logit_bias", {{"1", 1}, {"2", 1}}}}).status, 200);
  ExpectError(Complete({{"logit_bias", {{"1", 1}, {"2", 1}, {"3", 1}}}}), 400, "invalid_value", "logit_bias");
  ExpectError(Complete({{"logit_bias", {{"7", 1}, {"07", 1}}}}), 400, "invalid_value", "logit_bias");
  const json message = {{"role", "user"}, {"content", "x"}};
  EXPECT_EQ(Chat({{"messages", {message, message}}}).status, 200);
  ExpectError(Chat({{"messages", {message, message, message}}}), 400, "invalid_value", "messages");
  EXPECT_EQ(Complete({{"prompt", {"a", "b"}}, {"n", 2}}).status, 200);
  ExpectError(Complete({{"prompt", {"a", "b", "c"}}, {"n", 2}}), 400, "invalid_value", "prompt");
}

TEST_F(ApiErrors, MessagesAreCheckedBeforeTheTemplateSeesThem) {
  const json bad[] = {
      json{1},
      json{{{"content", "x"}}},
      json{{{"role", 1}, {"content", "x"}}},
      json{{{"role", ""}, {"content", "x"}}},
      json{{{"role", "user"}}},
      json{{{"role", "user"}, {"content", nullptr}}},
      json{{{"role", "user"}, {"content", 5}}},
      json{{{"role", "user"}, {"content", {{"a", 1}}}}},
      json{{{"role", "user"}, {"content", json::array({json{{"text", "x"}}})}}},
      json{{{"role", "user"}, {"content", json::array({json{{"type", "text"}}})}}},
      json("text"),
      json{{"role", "user"}},
  };
  for (const json& messages : bad) {
    const RawResponse response = Chat({{"messages", messages}});
    EXPECT_EQ(response.status, 400) << messages;
    ExpectError(response, 400, "invalid_value", "messages");
  }
  const json image = json::array({json{{"type", "image_url"}, {"image_url", "x"}}});
  ExpectError(Chat({{"messages", {{{"role", "user"}, {"content", image}}}}}), 400, "unsupported_parameter",
              "messages");
  EXPECT_EQ(Chat({{"messages",
                   {{{"role", "assistant"}, {"content", nullptr}}, {{"role", "user"}, {"content", ""}}}}})
                .status,
            200);
}

TEST_F(ApiErrors, AnUnknownModelIs404AndEveryServedNameWorks) {
  ExpectError(Complete({{"model", "gpt-4"}}), 404, "model_not_found", "model");
  EXPECT_EQ(Json(Complete({{"model", "org/alias"}}))["model"], "tiny") << "the first name is echoed";
}

TEST_F(ApiErrors, TheQueueOfTheEngineIs429) {
  engine_.set_submit_error(ResourceExhaustedError("2048 requests wait"), 1);

  const RawResponse response = Complete({{"n", 2}});

  ExpectError(response, 429, "queue_full");
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  EXPECT_EQ(response.headers.at("retry-after-ms"), "1000");
  EXPECT_TRUE(Eventually([&] { return engine_.num_open() == 0; }))
      << "the choice that was accepted is cancelled";
  ExpectError(Complete({{"stream", true}}), 429, "queue_full");
}

TEST_F(ApiErrors, AnEngineThatIsNotReadyIs503WithItsReason) {
  engine_.set_submit_error(UnavailableError("loading: stage 1 at 40 %"));
  ExpectError(Complete({}), 503, "loading");
  engine_.set_submit_error(UnavailableError("stage 1 is lost"));
  ExpectError(Complete({{"stream", true}}), 503, "unavailable");
}

// The API walk: every field of the table with every value that broke somebody. 2xx or 4xx with the error
// object.
class ApiWalk : public ApiTest {
 protected:
  void Walk(std::string_view path, const json& base, std::string_view field, const json& value) {
    json body = base;
    body[std::string(field)] = value;
    if (client_ == nullptr) client_ = std::make_unique<RawClient>(api_->port());
    if (!client_->TrySend(Post(path, body.dump()))) client_ = std::make_unique<RawClient>(api_->port());
    RawResponse response = client_->Read(20s);
    const std::string what = fmt::format("{} {} = {}", path, field, value.dump().substr(0, 60));
    EXPECT_TRUE(response.complete) << what << ": no answer";
    EXPECT_TRUE((response.status >= 200 && response.status < 300) ||
                (response.status >= 400 && response.status < 500))
        << what << ": " << response.status << " " << response.body;
    if (response.status >= 400) {
      EXPECT_TRUE(Json(response)["error"]["message"].is_string()) << what;
      EXPECT_LT(response.body.size(), 2000u) << what << ": an error does not send the body back";
    }
    if (response.headers["connection"] != "keep-alive") client_ = nullptr;
    ++num_walked_;
  }

  std::unique_ptr<RawClient> client_;
  int num_walked_ = 0;
};

TEST_F(ApiWalk, B139_NoValueOfAnyFieldIsAnsweredWith5xxOrSilence) {
  Start();
  const json completion = {{"prompt", "p"}};
  const json chat = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  const json tokenize = {{"prompt", "p"}};
  const json detokenize = {{"tokens", {1}}};
  const std::vector<std::tuple<ApiRoute, std::string, json>> routes = {
      {kCompletionRoute, "/v1/completions", completion},
      {kChatRoute, "/v1/chat/completions", chat},
      {kTokenizeRoute, "/tokenize", tokenize},
      {kDetokenizeRoute, "/detokenize", detokenize}};
  for (const FieldRule& rule : RequestFields(options_)) {
    std::vector<json> values = {std::numeric_limits<int64_t>::min(),
                                -1,
                                0,
                                1,
                                2147483648,
                                9223372036854775807,
                                9223372036854775808u,
                                1e30,
                                -1e30,
                                1.5,
                                1e-300,
                                "NaN",
                                "",
                                std::string("a\0b", 3),
                                "7",
                                nullptr,
                                json::array(),
                                json::array({-1}),
                                json::array({1e30}),
                                json::array({nullptr}),
                                json::object(),
                                json{{"-1", 1}},
                                json{{"1", "x"}},
                                json{{"99999999999", 1}},
                                true,
                                false};
    if (rule.max != 0) values.insert(values.end(), {rule.min, rule.max, rule.min - 1, rule.max + 1});
    for (const auto& [route, path, base] : routes) {
      if ((rule.routes & route) == 0) continue;
      for (const json& value : values) Walk(path, base, rule.name, value);
    }
  }
  EXPECT_GT(num_walked_, 1500);
  EXPECT_EQ(Complete({}).status, 200) << "alive";
}

TEST_F(ApiWalk, StringsOfMegabytesAreAnsweredToo) {
  Start();
  const std::string three(3'000'000, 'x');
  for (const char* field : {"model", "prompt", "stop", "user", "bad_words"})
    Walk("/v1/completions", {{"prompt", "p"}}, field, three);

  const RawResponse over = Complete({{"prompt", std::string(10'000'000, 'x')}});

  ExpectError(over, 413, "body_too_large");
}

TEST_F(ApiWalk, EveryIntegerFieldDeclaresARange) {
  int integers = 0;
  for (const FieldRule& rule : RequestFields(options_)) {
    if (rule.kind != FieldKind::kInteger) continue;
    ++integers;
    EXPECT_LT(rule.min, rule.max) << rule.name;
    json body = {{"prompt", "p"}, {std::string(rule.name), -9.5}};
    CompletionRequest request;
    if ((rule.routes & kCompletionRoute) != 0) {
      EXPECT_TRUE(ParseCompletionRequest(nlohmann::ordered_json(body), options_, &request).has_value())
          << rule.name;
    }
  }
  EXPECT_GE(integers, 8);
}

}  // namespace
}  // namespace paceline::testing
