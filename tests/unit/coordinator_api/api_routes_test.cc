// Routes, rights, headers and the small endpoints.
#include <gmock/gmock.h>

#include "coordinator/api/routes.h"
#include "tests/unit/coordinator_api/api_fixture.h"

namespace paceline::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

using ApiRoutesTest = ApiTest;

TEST_F(ApiRoutesTest, ModelsAreListedAndFoundByNameWithSlashes) {
  const json list = Json(Send(Get("/v1/models")));
  ASSERT_EQ(list["data"].size(), 2u);
  const json& model = list["data"][0];
  EXPECT_EQ(model["id"], "tiny");
  EXPECT_EQ(model["object"], "model");
  EXPECT_EQ(model["root"], "/models/tiny.gguf");
  EXPECT_EQ(model["max_model_len"], 200);
  EXPECT_TRUE(model["parent"].is_null());

  EXPECT_EQ(Json(Send(Get("/v1/models/tiny")))["id"], "tiny");
  EXPECT_EQ(Json(Send(Get("/v1/models/org/alias")))["id"], "org/alias");
  EXPECT_EQ(Json(Send(Get("/v1/models/org%2Falias")))["id"], "org/alias");
  ExpectError(Send(Get("/v1/models/other")), 404, "model_not_found");
}

TEST_F(ApiRoutesTest, DoubledAndTrailingSlashesAreTheSameRoute) {
  EXPECT_EQ(Send(Get("/v1//models")).status, 200);
  EXPECT_EQ(Send(Get("//v1/models/")).status, 200);
}

TEST_F(ApiRoutesTest, ARootPathIsTakenOffWhereAProxyLeavesIt) {
  options_.root_path = "/llm/";
  EXPECT_EQ(Send(Get("/llm/v1/models")).status, 200);
  EXPECT_EQ(Send(Get("/v1/models")).status, 200);
  EXPECT_EQ(Send(Get("/llmv1/models")).status, 404);
  EXPECT_EQ(Send(Get("/llm")).status, 200);
}

TEST_F(ApiRoutesTest, HealthFollowsTheEngineWithAnEmptyBody) {
  for (const char* path : {"/health", "/ping"}) {
    engine_.set_readiness(OkStatus());
    const RawResponse well = Send(Get(path));
    EXPECT_EQ(well.status, 200);
    EXPECT_EQ(well.body, "");
    engine_.set_readiness(UnavailableError("loading"));
    const RawResponse ill = Send(Get(path));
    EXPECT_EQ(ill.status, 503);
    EXPECT_EQ(ill.headers.count("retry-after"), 1u);
  }
  engine_.set_readiness(OkStatus());
  EXPECT_EQ(Send("POST /ping HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").status, 200);
}

TEST_F(ApiRoutesTest, UnknownRoutesAre404InJsonAndWrongMethods405WithAllow) {
  ExpectError(Send(Get("/v2/nothing")), 404, "not_found");
  const RawResponse wrong = Send(Get("/v1/completions"));
  ExpectError(wrong, 405, "method_not_allowed");
  EXPECT_THAT(wrong.headers.at("allow"), HasSubstr("POST"));
  EXPECT_EQ(wrong.headers.at("connection"), "close");
  ExpectError(Send("DELETE /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"), 405, "method_not_allowed");
}

TEST_F(ApiRoutesTest, RoutesThatAreNotOfferedAre501AndNotToBeRetried) {
  for (const char* path : {"/v1/embeddings", "/rerank", "/v1/rerank", "/v1/responses", "/v1/messages"}) {
    const RawResponse response = PostJson(path, json::object());
    ExpectError(response, 501, "not_implemented");
    EXPECT_EQ(response.headers.at("x-should-retry"), "false");
  }
}

TEST_F(ApiRoutesTest, BodiesNeedALengthAndTheRightType) {
  ExpectError(Send("POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\r\n"), 411,
              "length_required");
  for (const char* type :
       {"text/plain", "application/x-www-form-urlencoded", "application/json; charset=gbk", ""}) {
    const RawResponse response = Send(fmt::format(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: {}\r\ncontent-length: 2\r\n\r\n{{}}",
        type));
    ExpectError(response, 415, "unsupported_media_type");
    EXPECT_EQ(response.headers.at("connection"), "close");
  }
  const std::string body = R"({"prompt":"x"})";
  EXPECT_EQ(Send(fmt::format("POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: Application/JSON; "
                             "charset=UTF-8\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n",
                             body.size(), body))
                .status,
            200);
}

TEST_F(ApiRoutesTest, ProtocolErrorsAreJsonToo) {
  ExpectError(Send("BROKEN\r\n\r\n"), 400, "bad_request");
  ExpectError(Send(Get("/" + std::string(9000, 'p'))), 414, "uri_too_long");
  ExpectError(Send(Get("/", "a: " + std::string(9000, 'p') + "\r\n")), 431, "headers_too_large");
}

TEST_F(ApiRoutesTest, AKeyGuardsEveryRouteButProbesAndThePage) {
  options_.api_keys = {"first-key", "second"};
  Start();
  for (const Route& route : ApiRoutes()) {
    const bool post = route.methods == "POST";
    const std::string path = std::string(route.path) + (route.prefix ? "/x" : "");
    const std::string bare = post ? Post(path, "{}") : Get(path);
    const std::string wrong = post ? Post(path, "{}", "authorization: Bearer first-kez\r\n")
                                   : Get(path, "authorization: Bearer first-kez\r\n");
    const bool open = path == "/health" || path == "/ping" || path == "/";
    EXPECT_EQ(Send(bare).status == 401, !open) << path;
    EXPECT_EQ(Send(wrong).status == 401, !open) << path;
  }
  const RawResponse refused = Send(Get("/v1/models"));
  ExpectError(refused, 401, "invalid_api_key");
  EXPECT_EQ(refused.headers.count("www-authenticate"), 1u);
  for (const char* header : {"authorization: Bearer first-key\r\n", "Authorization: bearer second\r\n"}) {
    EXPECT_EQ(Send(Get("/v1/models", header)).status, 200);
  }
  for (const char* header : {"authorization: Bearer \r\n", "authorization: Bearer first-keyfirst-key\r\n",
                             "authorization: first-key\r\n", "authorization: Bearer first\r\n"}) {
    EXPECT_EQ(Send(Get("/v1/models", header)).status, 401) << header;
  }
}

TEST_F(ApiRoutesTest, ARequestIdIsTakenOrMadeAndEchoedOnEveryAnswer) {
  EXPECT_EQ(Send(Get("/health", "x-request-id: abc-1\r\n")).headers.at("x-request-id"), "abc-1");
  EXPECT_EQ(Send(Get("/nowhere", "x-request-id: abc-2\r\n")).headers.at("x-request-id"), "abc-2");
  EXPECT_EQ(Send(Post("/v1/completions", R"({"prompt":"x","stream":true})", "x-request-id: abc-3\r\n"))
                .headers.at("x-request-id"),
            "abc-3");
  const std::string made = Send(Get("/health")).headers.at("x-request-id");
  EXPECT_FALSE(made.empty());
  EXPECT_NE(Send(Get("/health")).headers.at("x-request-id"), made);
  EXPECT_NE(Send(Get("/health", "x-request-id: a b<script>\r\n")).headers.at("x-request-id"), "a b<script>");
}

TEST_F(ApiRoutesTest, WithoutAllowedOriginsAWebPageGetsNoCorsHeaders) {
  const RawResponse preflight = Send(
      "OPTIONS /v1/completions HTTP/1.1\r\nhost: x\r\norigin: http://evil\r\naccess-control-request-method: "
      "POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.count("access-control-allow-origin"), 0u);
  EXPECT_EQ(Send(Get("/v1/models", "origin: http://evil\r\n")).headers.count("access-control-allow-origin"),
            0u);
}

TEST_F(ApiRoutesTest, AnAllowedOriginIsNamedInPreflightsAnswersAndErrors) {
  options_.allowed_origins = {"http://ui"};
  const RawResponse preflight = Send(
      "OPTIONS /v1/completions HTTP/1.1\r\nhost: x\r\norigin: http://ui\r\naccess-control-request-method: "
      "POST\r\n\r\n");
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "http://ui");
  EXPECT_THAT(preflight.headers.at("access-control-allow-headers"), HasSubstr("authorization"));
  EXPECT_EQ(Send(Get("/v1/models", "origin: http://ui\r\n")).headers.at("access-control-allow-origin"),
            "http://ui");
  EXPECT_EQ(Send(Get("/none", "origin: http://ui\r\n")).headers.at("access-control-allow-origin"),
            "http://ui");
  EXPECT_EQ(Send(Get("/v1/models", "origin: http://other\r\n")).headers.count("access-control-allow-origin"),
            0u);
  EXPECT_EQ(Send(Get("/v1/models")).headers.at("vary"), "Origin");
}

TEST_F(ApiRoutesTest, AnyOriginWithCredentialsIsNamedInsteadOfAStar) {
  options_.allowed_origins = {"*"};
  EXPECT_EQ(Send(Get("/v1/models", "origin: http://ui\r\n")).headers.at("access-control-allow-origin"), "*");
  options_.allow_credentials = true;
  Start();
  const RawResponse response = Send(Get("/v1/models", "origin: http://ui\r\n"));
  EXPECT_EQ(response.headers.at("access-control-allow-origin"), "http://ui");
  EXPECT_EQ(response.headers.at("access-control-allow-credentials"), "true");
}

TEST_F(ApiRoutesTest, VersionPageAndTokenizerInfo) {
  EXPECT_EQ(Json(Send(Get("/version")))["version"], "0.1.0");
  const RawResponse page = Send(Get("/"));
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("</html>"));
  ExpectError(Send(Get("/tokenizer_info")), 404, "not_found");
  options_.enable_tokenizer_info = true;
  Start();
  EXPECT_EQ(Json(Send(Get("/tokenizer_info")))["eos_token"], "</s>");
}

TEST_F(ApiRoutesTest, MetricsSpeakThePrometheusFormat) {
  Complete({});
  const RawResponse response = Send(Get("/metrics"));

  EXPECT_THAT(response.headers.at("content-type"), HasSubstr("version=0.0.4"));
  EXPECT_THAT(response.body, HasSubstr("vllm:request_success_total{"));
  EXPECT_THAT(response.body, HasSubstr("vllm:prompt_tokens_total{engine=\"0\",model_name=\"tiny\"} 2"));
}

TEST_F(ApiRoutesTest, ServesAUnixSocket) {
  options_.uds = fmt::format("/tmp/paceline-api-test-{}.sock", ::getpid());
  Start();
  RawClient client(options_.uds);

  client.Send(Post("/v1/completions", R"({"prompt":"x"})"));

  EXPECT_EQ(Json(client.Read())["choices"][0]["text"], "hello");
}

TEST_F(ApiRoutesTest, OptionsThatDoNotFitTogetherAreRefusedAtStart) {
  const auto refuses = [&](const std::function<void(ApiOptions&)>& change) {
    ApiOptions options = options_;
    change(options);
    return ApiServer::Start(options, &engine_, &metrics_).status().code() ==
           absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses([](ApiOptions& o) { o.served_model_names.clear(); }));
  EXPECT_TRUE(refuses([](ApiOptions& o) { o.tokenizer = nullptr; }));
  EXPECT_TRUE(refuses([](ApiOptions& o) { o.max_model_len = 1; }));
  EXPECT_TRUE(refuses([](ApiOptions& o) { o.api_keys = {""}; }));
  EXPECT_TRUE(refuses([](ApiOptions& o) { o.default_chat_template_kwargs = "[1]"; }));
  EXPECT_TRUE(refuses([](ApiOptions& o) { o.eos_token_ids = {260}; }));
  EXPECT_FALSE(refuses([](ApiOptions&) {}));
}

}  // namespace
}  // namespace paceline::testing
