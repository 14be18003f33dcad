// Clients that leave, servers that stop, many at once.
#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/coordinator_api/api_fixture.h"

namespace paceline::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ApiLifecycle : public ApiTest {
 protected:
  // One token, then nothing until Release.
  static Script Waits() {
    Script script = Says("abc");
    script.waits = true;
    return script;
  }
  static Script Endless() {
    Script script = Says(std::string(190, 'x'));
    script.step_time = 10ms;
    return script;
  }
};

TEST_F(ApiLifecycle, B127_AClientThatLeavesInPrefillCancelsPlainAndStreamed) {
  engine_.set_script([](const GenerationRequest&) { return Waits(); });
  Start();
  for (const char* stream : {"true", "false"}) {
    for (int retry = 0; retry < 8; ++retry) {
      auto client = std::make_unique<RawClient>(api_->port());
      client->Send(Post("/v1/completions", fmt::format(R"({{"prompt":"x","n":2,"stream":{}}})", stream)));
      ASSERT_TRUE(Eventually([&] { return engine_.num_open() == 2; }));
      client.reset();
      ASSERT_TRUE(Eventually([&] { return engine_.num_open() == 0; }));
    }
  }
  EXPECT_EQ(engine_.num_cancelled(), 32u);
  EXPECT_TRUE(Eventually([&] { return api_->num_open_requests() == 0; }));
  EXPECT_THAT(metrics_.Text(), HasSubstr("finished_reason=\"abort\",model_name=\"tiny\"} 32"));
}

TEST_F(ApiLifecycle, AClientThatLeavesInDecodeCancels) {
  engine_.set_script([](const GenerationRequest&) { return Endless(); });
  Start();
  auto client = std::make_unique<RawClient>(api_->port());
  client->Send(Post("/v1/completions", R"({"prompt":"x","stream":true,"max_tokens":190})"));
  ASSERT_THAT(client->ReadUntil("\"x\""), HasSubstr("\"x\""));

  client.reset();

  EXPECT_TRUE(Eventually([&] { return engine_.num_open() == 0; }));
  EXPECT_EQ(engine_.num_cancelled(), 1u);
}

TEST_F(ApiLifecycle, B128_ManyShortRequestsLeaveNothingBehind) {
  engine_.set_script([](const GenerationRequest&) { return Says("x"); });
  Start();
  {
    RawClient client(api_->port());
    for (int i = 0; i < 1000; ++i) {
      client.Send(Post("/v1/completions", R"({"prompt":"x","max_tokens":1})"));
      ASSERT_EQ(client.Read().status, 200);
    }
  }
  for (int i = 0; i < 100; ++i) {
    RawClient client(api_->port());
    client.Send(Post("/v1/completions", R"({"prompt":"x","max_tokens":1})"));
  }
  EXPECT_TRUE(Eventually([&] { return api_->num_open_requests() == 0 && engine_.num_open() == 0; }));
}

TEST_F(ApiLifecycle, B149_ManyStreamsAtOnceAllEndWell) {
  engine_.set_script([](const GenerationRequest&) {
    Script script = Says("hello");
    script.step_time = 20ms;
    return script;
  });
  options_.sse_ping_interval = 5ms;
  Start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(std::make_unique<RawClient>(api_->port()));
    clients.back()->Send(
        Post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"stream":true})"));
  }

  for (auto& client : clients) {
    const RawResponse response = client->Read(30s);
    ASSERT_TRUE(response.complete);
    EXPECT_EQ(StreamedText(Chunks(response)), "hello");
    EXPECT_EQ(response.Events().back(), "[DONE]");
  }
  EXPECT_EQ(engine_.num_cancelled(), 0u) << "no false disconnect";
}

TEST_F(ApiLifecycle, ALargePromptDoesNotHoldUpProbesOrStreams) {
  options_.max_model_len = 3'000'000;
  engine_.set_script([](const GenerationRequest&) { return Endless(); });
  Start();
  RawClient large(api_->port());
  large.Send(Post("/v1/completions", json{{"prompt", std::string(2'000'000, 'x')}}.dump()));

  const Instant start = MonotonicNow();
  EXPECT_EQ(Send(Get("/health")).status, 200);
  EXPECT_LT(MonotonicNow() - start, 500ms);
}

TEST_F(ApiLifecycle, DrainRefusesNewRequestsAndFinishesTheOldOnes) {
  engine_.set_script([](const GenerationRequest&) { return Waits(); });
  Start();
  RawClient old(api_->port());
  old.Send(Post("/v1/completions", R"({"prompt":"x","stream":true})"));
  ASSERT_TRUE(Eventually([&] { return engine_.num_open() == 1; }));

  api_->BeginDrain();

  ExpectError(Complete({}), 503, "draining");
  EXPECT_EQ(Send(Get("/health")).status, 503);
  std::thread stopper([&] { api_->Stop(10s); });
  engine_.Release();
  const RawResponse response = old.Read();
  EXPECT_EQ(response.Events().back(), "[DONE]");
  stopper.join();
  EXPECT_EQ(engine_.num_cancelled(), 0u);
}

TEST_F(ApiLifecycle, StopEndsWhatIsLeftWithAnError) {
  engine_.set_script([](const GenerationRequest&) { return Waits(); });
  Start();
  RawClient streamed(api_->port()), plain(api_->port());
  streamed.Send(Post("/v1/completions", R"({"prompt":"x","stream":true})"));
  plain.Send(Post("/v1/completions", R"({"prompt":"x"})"));
  ASSERT_TRUE(Eventually([&] { return engine_.num_open() == 2; }));

  api_->Stop(50ms);

  const RawResponse answer = plain.Read();
  ExpectError(answer, 503, "draining");
  const RawResponse events = streamed.Read();
  EXPECT_TRUE(events.complete);
  EXPECT_EQ(json::parse(events.Events().back())["error"]["code"], "draining");
  EXPECT_EQ(engine_.num_cancelled(), 2u);
  EXPECT_EQ(api_->num_open_requests(), 0u);
}

TEST_F(ApiLifecycle, AnEngineMayCallBackAfterTheServerIsGone) {
  engine_.set_script([](const GenerationRequest&) { return Endless(); });
  Start();
  auto client = std::make_unique<RawClient>(api_->port());
  client->Send(Post("/v1/completions", R"({"prompt":"x","max_tokens":190})"));
  ASSERT_TRUE(Eventually([&] { return engine_.num_open() == 1; }));

  api_.reset();

  EXPECT_EQ(engine_.num_open(), 0u) << "cancelled; its last delta went nowhere";
}

}  // namespace
}  // namespace paceline::testing
