// Plain answers: completions and chat, prompts, choices, logprobs, usage, defaults.
#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "tests/unit/coordinator_api/api_fixture.h"

namespace paceline::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<TokenId> Bytes(std::string_view text) {
  std::vector<TokenId> ids;
  for (char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

using ApiPlain = ApiTest;

TEST_F(ApiPlain, ACompletionHasTheShapeThatClientsRead) {
  engine_.set_script([](const GenerationRequest&) { return Says("hello", 2); });

  const RawResponse response = Complete({{"max_tokens", 50}});

  EXPECT_EQ(response.status, 200);
  const json body = Json(response);
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_GT(body["created"], 1'500'000'000);
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["text"], "hello");
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["stop_reason"].is_null());
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(body["usage"]["prompt_tokens"], 2) << "BOS and p";
  EXPECT_EQ(body["usage"]["completion_tokens"], 6) << "the end id is an emitted token";
  EXPECT_EQ(body["usage"]["total_tokens"], 8);
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 2);
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["rejected_prediction_tokens"], 3);
  EXPECT_FALSE(body["usage"].contains("prompt_tokens_details")) << "only with its flag";
}

TEST_F(ApiPlain, AChatAnswerHasTheShapeThatClientsRead) {
  options_.enable_prompt_tokens_details = true;

  const json body = Json(Chat({}));

  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "hello");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST_F(ApiPlain, ChatRendersTheTemplateAndAddsNoBosOfItsOwn) {
  Chat({{"messages", {{{"role", "system"}, {"content", "s"}}, {{"role", "user"}, {"content", "u"}}}}});

  const std::vector<TokenId> prompt = engine_.requests()[0].prompt;
  std::vector<TokenId> want = {kImStart};
  for (TokenId id : Bytes("system\ns")) want.push_back(id);
  want.push_back(kImEnd);
  want.push_back('\n');
  want.push_back(kImStart);
  for (TokenId id : Bytes("user\nu")) want.push_back(id);
  want.push_back(kImEnd);
  want.push_back('\n');
  want.push_back(kImStart);
  for (TokenId id : Bytes("assistant\n")) want.push_back(id);
  EXPECT_EQ(prompt, want);
}

TEST_F(ApiPlain, ContentPartsAreJoinedForATemplateOfStrings) {
  Chat({{"messages",
         {{{"role", "user"},
           {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}}}});
  Chat({{"messages", {{{"role", "user"}, {"content", "a\nb"}}}}});

  EXPECT_EQ(engine_.requests()[0].prompt, engine_.requests()[1].prompt);
}

TEST_F(ApiPlain, TemplateVariablesOfTheRequestWinOverTheServers) {
  options_.default_chat_template_kwargs = R"({"loud": true})";

  Chat({});
  Chat({{"chat_template_kwargs", {{"loud", false}}}});

  EXPECT_GT(engine_.requests()[0].prompt.size(), engine_.requests()[1].prompt.size());
}

TEST_F(ApiPlain, TheTemplatesOwnRefusalIs400WithItsMessage) {
  const RawResponse response = Chat({{"messages", {{{"role", "forbidden"}, {"content", "x"}}}}});

  ExpectError(response, 400, "invalid_value", "messages");
  EXPECT_THAT(response.body, HasSubstr("no such role here"));
}

TEST_F(ApiPlain, ChatWithoutATemplateIsRefusedAndCompletionsGoOn) {
  options_.chat_template = nullptr;
  options_.chat_template_missing = "the model file has no chat template";

  const RawResponse response = Chat({});

  ExpectError(response, 400, "unsupported_parameter", "messages");
  EXPECT_THAT(response.body, HasSubstr("--chat-template"));
  EXPECT_EQ(Complete({}).status, 200);
}

TEST_F(ApiPlain, TakesPromptsInAllFourShapes) {
  Complete({{"prompt", "ab"}});
  Complete({{"prompt", {"ab", "c"}}});
  Complete({{"prompt", {97, 98}}});
  Complete({{"prompt", {{97, 98}, {99.0}}}});

  std::vector<std::vector<TokenId>> prompts;
  for (const GenerationRequest& request : engine_.requests()) prompts.push_back(request.prompt);
  const std::vector<TokenId> text_ab = {kBos, 'a', 'b'}, text_c = {kBos, 'c'}, ids_ab = {'a', 'b'},
                             ids_c = {'c'};
  EXPECT_THAT(prompts, ElementsAre(text_ab, text_ab, text_c, ids_ab, ids_ab, ids_c));
}

TEST_F(ApiPlain, ChoicesArePromptMajor) {
  engine_.set_script([](const GenerationRequest& r) {
    return Says(std::string(1, static_cast<char>(r.prompt.back())) + std::to_string(r.sampling.choice));
  });

  const json body = Json(Complete({{"prompt", {"a", "b"}}, {"n", 3}}));

  std::vector<std::string> texts;
  for (size_t i = 0; i < body["choices"].size(); ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    texts.push_back(body["choices"][i]["text"]);
  }
  EXPECT_THAT(texts, ElementsAre("a0", "a1", "a2", "b0", "b1", "b2"));
  EXPECT_EQ(body["usage"]["prompt_tokens"], 4);
}

TEST_F(ApiPlain, B146_EachChoiceRunsToItsOwnEnd) {
  engine_.set_script(
      [](const GenerationRequest& r) { return Says(r.sampling.choice == 0 ? "one.two" : "longer text"); });

  const json body = Json(Complete({{"n", 3}, {"seed", 1}, {"temperature", 1}, {"stop", "."}}));

  EXPECT_EQ(body["choices"][0]["text"], "one");
  EXPECT_EQ(body["choices"][0]["stop_reason"], ".");
  EXPECT_EQ(body["choices"][1]["text"], "longer text");
  EXPECT_EQ(body["choices"][2]["text"], "longer text");
  std::set<uint32_t> choices;
  for (const GenerationRequest& request : engine_.requests()) {
    EXPECT_EQ(request.sampling.seed, 1u);
    choices.insert(request.sampling.choice);
  }
  EXPECT_EQ(choices, (std::set<uint32_t>{0, 1, 2}));
}

TEST_F(ApiPlain, AnUnseededRequestReportsTheSeedThatReplaysIt) {
  const json first = Json(Complete({}));
  const json second = Json(Complete({}));
  Complete({{"seed", first["seed"]}});
  Complete({{"seed", -5}});

  EXPECT_NE(first["seed"], second["seed"]);
  EXPECT_LT(first["seed"].get<int64_t>(), int64_t{1} << 53) << "survives readers that know only doubles";
  EXPECT_EQ(engine_.requests()[2].sampling.seed, engine_.requests()[0].sampling.seed);
  EXPECT_EQ(engine_.requests()[3].sampling.seed, static_cast<uint64_t>(int64_t{-5}));
}

TEST_F(ApiPlain, B157_AnEmptyTextIsBosAloneWhereTheTokenizerAddsOne) {
  EXPECT_EQ(Complete({{"prompt", ""}}).status, 200);
  EXPECT_THAT(engine_.requests()[0].prompt, ElementsAre(kBos));
  ExpectError(Complete({{"prompt", json::array()}}), 400, "invalid_value", "prompt");
  ExpectError(Complete({{"prompt", {json::array()}}}), 400, "invalid_value", "prompt");
  ExpectError(Chat({{"messages", json::array()}}), 400, "invalid_value", "messages");
}

TEST_F(ApiPlain, B157_AnEmptyTextIs400WhereTheTokenizerAddsNone) {
  options_.tokenizer = ByteTokenizer(/*adds_bos=*/false);
  ExpectError(Complete({{"prompt", ""}}), 400, "invalid_value", "prompt");
}

TEST_F(ApiPlain, B142_ChatDefaultsToWhatTheContextLeaves) {
  engine_.set_script([](const GenerationRequest&) { return Says(std::string(500, 'x')); });
  const json sized = Json(PostJson("/tokenize", {{"messages", {{{"role", "user"}, {"content", ""}}}}}));
  const size_t frame = sized["count"];
  const std::string fitted(200 - 3 - frame, 'c');

  const json body = Json(Chat({{"messages", {{{"role", "user"}, {"content", fitted}}}}}));

  EXPECT_EQ(body["usage"]["prompt_tokens"], 197);
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
}

TEST_F(ApiPlain, CompletionsDefaultTo16TokensAndAreCutToTheContext) {
  engine_.set_script([](const GenerationRequest&) { return Says(std::string(500, 'x')); });

  EXPECT_EQ(Json(Complete({}))["usage"]["completion_tokens"], 16);
  EXPECT_EQ(Json(Complete({{"max_tokens", 1'000'000}}))["usage"]["completion_tokens"], 198);
  EXPECT_EQ(Json(Complete({{"max_tokens", 5}, {"max_completion_tokens", 7}}))["usage"]["completion_tokens"],
            7);
}

TEST_F(ApiPlain, ThePromptThatDoesNotFitIsRefusedWithBothSizes) {
  const RawResponse response = Complete({{"prompt", std::string(199, 'x')}});

  ExpectError(response, 400, "context_length_exceeded", "prompt");
  EXPECT_EQ(Json(response)["error"]["n_prompt_tokens"], 200);
  EXPECT_EQ(Json(response)["error"]["n_ctx"], 200);
  EXPECT_EQ(Complete({{"prompt", std::string(198, 'x')}}).status, 200);
  ExpectError(Complete({{"prompt", std::string(1'000'000, 'x')}}), 400, "context_length_exceeded");
  EXPECT_EQ(engine_.requests().size(), 1u) << "the engine never hears of the others";
}

TEST_F(ApiPlain, TheModelsDefaultsHoldUntilTheRequestSaysOtherwise) {
  options_.defaults.temperature = 0.6;
  options_.defaults.top_p = 0.95;
  options_.defaults.top_k = 20;
  options_.defaults.max_new_tokens = 3;
  engine_.set_script([](const GenerationRequest&) { return Says("abcdefg"); });

  Complete({});
  Complete({{"temperature", 0}, {"top_k", -1}, {"max_tokens", 4}});

  const SamplingParams model = engine_.requests()[0].sampling, own = engine_.requests()[1].sampling;
  EXPECT_FLOAT_EQ(model.temperature, 0.6f);
  EXPECT_EQ(model.top_k, 20);
  EXPECT_EQ(model.max_tokens, 3u);
  EXPECT_EQ(own.temperature, 0.0f);
  EXPECT_EQ(own.top_k, 0);
  EXPECT_FLOAT_EQ(own.top_p, 0.95f);
  EXPECT_EQ(own.max_tokens, 4u);
}

TEST_F(ApiPlain, SamplingFieldsReachTheEngine) {
  Complete({{"min_p", 0.1},
            {"presence_penalty", -2},
            {"frequency_penalty", 2},
            {"repetition_penalty", 1.5},
            {"logit_bias", {{"65", -100}, {"66", 1.5}}},
            {"stop_token_ids", {10}},
            {"allowed_token_ids", {65, 66}},
            {"min_tokens", 2},
            {"bad_words", {"no"}},
            {"max_tokens", 9}});

  const SamplingParams sampling = engine_.requests()[0].sampling;
  EXPECT_FLOAT_EQ(sampling.min_p, 0.1f);
  EXPECT_EQ(sampling.presence_penalty, -2.0f);
  EXPECT_EQ(sampling.frequency_penalty, 2.0f);
  EXPECT_EQ(sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(sampling.logit_bias, (std::vector<std::pair<TokenId, float>>{{65, -100.0f}, {66, 1.5f}}));
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(10, kEos, kImEnd));
  EXPECT_THAT(sampling.eos_token_ids, ElementsAre(kEos, kImEnd));
  EXPECT_THAT(sampling.allowed_token_ids, ElementsAre(65, 66));
  EXPECT_EQ(sampling.min_tokens, 2u);
  EXPECT_EQ(sampling.bad_words, (std::vector<std::vector<TokenId>>{{'n', 'o'}}));
}

TEST_F(ApiPlain, IgnoreEosKeepsOnlyTheRequestsOwnStopIds) {
  Complete({{"ignore_eos", true}, {"stop_token_ids", {33}}});

  EXPECT_THAT(engine_.requests()[0].sampling.stop_token_ids, ElementsAre(33));
  EXPECT_THAT(engine_.requests()[0].sampling.eos_token_ids, ElementsAre(kEos, kImEnd));
}

TEST_F(ApiPlain, StopReasonTellsWhichIdOrStringEndedIt) {
  engine_.set_script([](const GenerationRequest&) { return Says("ab!cd"); });

  const json by_id = Json(Complete({{"stop_token_ids", {33}}}));
  const json by_string = Json(Complete({{"stop", {"zz", "!c"}}}));
  const json included = Json(Complete({{"stop", "!"}, {"include_stop_str_in_output", true}}));
  const json id_included = Json(Complete({{"stop_token_ids", {33}}, {"include_stop_str_in_output", true}}));

  EXPECT_EQ(by_id["choices"][0]["text"], "ab");
  EXPECT_EQ(by_id["choices"][0]["stop_reason"], 33);
  EXPECT_EQ(by_id["usage"]["completion_tokens"], 3);
  EXPECT_EQ(by_string["choices"][0]["text"], "ab");
  EXPECT_EQ(by_string["choices"][0]["stop_reason"], "!c");
  EXPECT_EQ(included["choices"][0]["text"], "ab!");
  EXPECT_EQ(id_included["choices"][0]["text"], "ab!");
}

TEST_F(ApiPlain, CompletionLogprobsHoldTheChosenTokenWithTheIdenticalFloat) {
  engine_.set_script([](const GenerationRequest&) { return Says("h\xC3\xA9!"); });

  for (int top : {0, 1, 2, 5}) {
    const json body = Json(Complete({{"logprobs", top}, {"stop_token_ids", {33}}}));
    const json& logprobs = body["choices"][0]["logprobs"];
    ASSERT_EQ(logprobs["tokens"].size(), 4u) << "one per emitted token, the end included";
    EXPECT_EQ(logprobs["token_logprobs"].size(), 4u);
    EXPECT_EQ(logprobs["top_logprobs"].size(), 4u);
    EXPECT_EQ(logprobs["text_offset"], (json{0, 1, 2, 3}));
    EXPECT_EQ(logprobs["tokens"][1], "\xEF\xBF\xBD") << "half a character";
    for (size_t i = 0; i < 4; ++i) {
      const json& tops = logprobs["top_logprobs"][i];
      const std::string token = logprobs["tokens"][i];
      ASSERT_TRUE(tops.contains(token)) << tops;
      EXPECT_EQ(tops[token].get<double>(), logprobs["token_logprobs"][i].get<double>());
    }
    EXPECT_EQ(body["choices"][0]["text"], "h\xC3\xA9");
  }
}

TEST_F(ApiPlain, ChatLogprobsCarryTheTrueBytes) {
  engine_.set_script([](const GenerationRequest&) { return Says("\xC3\xA9"); });

  const json body = Json(Chat({{"logprobs", true}, {"top_logprobs", 3}}));
  const json plain = Json(Chat({{"logprobs", true}}));

  const json& content = body["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 3u);
  EXPECT_EQ(content[0]["bytes"], (json{0xC3}));
  EXPECT_EQ(content[1]["bytes"], (json{0xA9}));
  for (const json& entry : content) {
    ASSERT_EQ(entry["top_logprobs"].size(), 3u);
    bool found = false;
    for (const json& top : entry["top_logprobs"]) {
      found = found || (top["bytes"] == entry["bytes"] && top["logprob"] == entry["logprob"]);
    }
    EXPECT_TRUE(found) << entry;
  }
  EXPECT_EQ(plain["choices"][0]["logprobs"]["content"][0]["top_logprobs"].size(), 1u)
      << "the chosen token alone";
}

TEST_F(ApiPlain, TokensCanBeReportedAsIds) {
  engine_.set_script([](const GenerationRequest&) { return Says("A"); });

  const json body =
      Json(Complete({{"logprobs", 0}, {"return_tokens_as_token_ids", true}, {"return_token_ids", true}}));

  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"][0], "token_id:65");
  EXPECT_EQ(body["choices"][0]["token_ids"], (json{65, kEos}));
  EXPECT_EQ(body["choices"][0]["prompt_token_ids"], (json{kBos, 'p'}));
}

TEST_F(ApiPlain, B130_ACapInTheMiddleOfACharacterEndsWithTheReplacementCharacter) {
  engine_.set_script([](const GenerationRequest&) { return Says("\xF0\x9F\x98\x80"); });

  const json body = Json(Complete({{"max_tokens", 1}}));

  EXPECT_EQ(body["choices"][0]["text"], "\xEF\xBF\xBD");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(Complete({}).status, 200) << "alive";
}

TEST_F(ApiPlain, SpecialTokensAreHiddenUnlessAskedFor) {
  engine_.set_script([](const GenerationRequest&) {
    Script script = Says("a");
    script.runs.push_back({kImStart});
    script.runs.push_back({'b'});
    return script;
  });

  EXPECT_EQ(Json(Complete({}))["choices"][0]["text"], "ab");
  EXPECT_EQ(Json(Complete({{"skip_special_tokens", false}}))["choices"][0]["text"], "a<|im_start|>b");
}

TEST_F(ApiPlain, B134_AnEscapedPairIsJoined) {
  Send(Post("/v1/completions", R"({"prompt":"\ud83d\ude00"})"));

  EXPECT_THAT(engine_.requests()[0].prompt, ElementsAre(kBos, 0xF0, 0x9F, 0x98, 0x80));
}

TEST_F(ApiPlain, AnErrorOfTheEngineIsAnErrorAnswerAndTheOtherChoicesAreCancelled) {
  engine_.set_script([](const GenerationRequest& r) {
    Script script = Says("ab");
    if (r.sampling.choice == 0) script.breaks = UnavailableError("stage 1 is lost");
    script.waits = r.sampling.choice == 1;
    return script;
  });

  const RawResponse response = Complete({{"n", 2}});

  ExpectError(response, 503, "unavailable");
  EXPECT_EQ(response.headers.count("retry-after"), 1u);
  EXPECT_TRUE(Eventually([&] { return engine_.num_open() == 0; }));
  EXPECT_EQ(engine_.num_cancelled(), 1u);
}

TEST_F(ApiPlain, TokenizeAndDetokenizeAreInverse) {
  const json ids = Json(PostJson("/tokenize", {{"prompt", "h\xC3\xA9"}}));
  EXPECT_EQ(ids["tokens"], (json{kBos, 'h', 0xC3, 0xA9}));
  EXPECT_EQ(ids["count"], 4);
  EXPECT_EQ(ids["max_model_len"], 200);
  EXPECT_EQ(Json(PostJson("/tokenize", {{"prompt", "h"}, {"add_special_tokens", false}}))["tokens"],
            (json{'h'}));

  EXPECT_EQ(Json(PostJson("/detokenize", {{"tokens", ids["tokens"]}}))["prompt"], "<s>h\xC3\xA9");
  ExpectError(PostJson("/detokenize", {{"tokens", {260}}}), 400, "invalid_value", "tokens");
  ExpectError(PostJson("/tokenize", json::object()), 400, "invalid_value");
}

}  // namespace
}  // namespace paceline::testing
