// The transport with a handler of its own: what a socket sees, deadlines, back pressure, farewells.
#include "coordinator/api/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "tests/unit/coordinator_api/http_client.h"

namespace paceline {
namespace {

using testing::Get;
using testing::Post;
using testing::RawClient;
using testing::RawResponse;

// Answers "/echo" at once, refuses "/refused" before its body, keeps the exchange of everything else.
class TestHandler : public HttpHandler {
 public:
  std::optional<HttpResponse> Admit(HttpRequest& head) override {
    if (head.path != "/refused") return std::nullopt;
    return HttpResponse{.status = 401, .body = "no"};
  }
  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override {
    if (request.path == "/echo") {
      exchange->Reply({.content_type = "text/plain", .body = request.method + " " + request.body});
      return;
    }
    exchange->OnGone([this] { ++num_gone; });
    std::lock_guard lock(mutex_);
    held_ = std::move(exchange);
    arrived_.notify_all();
  }
  HttpResponse ProtocolError(const HttpRequest&, int status, std::string_view message) override {
    return {.status = status, .content_type = "text/plain", .body = std::string(message)};
  }

  // The exchange of the request that is being answered.
  std::shared_ptr<HttpExchange> Held() {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, 10s, [this] { return held_ != nullptr; });
    return std::exchange(held_, nullptr);
  }

  std::atomic<int> num_gone = 0;

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::shared_ptr<HttpExchange> held_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void Listen(HttpLimits limits = {}) {
    HttpServerOptions options;
    options.limits = limits;
    auto server = HttpServer::Listen(options, &handler_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    server_->Start();
  }

  // Runs on the I/O thread and waits.
  void OnLoop(std::function<void()> work) {
    std::promise<void> done;
    server_->Post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  bool Eventually(const std::function<bool()>& condition, Duration at_most = 5s) {
    const Instant deadline = MonotonicNow() + at_most;
    while (!condition() && MonotonicNow() < deadline) std::this_thread::sleep_for(2ms);
    return condition();
  }

  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, KeepsAConnectionForTheNextRequest) {
  Listen();
  RawClient client(server_->port());

  for (std::string_view body : {"one", "two", "three"}) {
    client.Send(Post("/echo", body));
    const RawResponse response = client.Read();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "POST " + std::string(body));
    EXPECT_EQ(response.headers.at("connection"), "keep-alive");
  }
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  Listen();
  RawClient client(server_->port());

  client.Send(Post("/echo", "one") + Post("/echo", "two") + Get("/echo", "connection: close\r\n"));

  EXPECT_EQ(client.Read().body, "POST one");
  EXPECT_EQ(client.Read().body, "POST two");
  EXPECT_EQ(client.Read().body, "GET ");
  EXPECT_TRUE(client.WaitClosed());
}

TEST_F(HttpServerTest, AnswersHeadWithoutABodyAndWithItsLength) {
  Listen();
  RawClient client(server_->port());

  client.Send("HEAD /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");

  const std::string raw = client.ReadUntil("never", 2s);
  EXPECT_NE(raw.find("content-length: 5\r\n"), std::string::npos);
  EXPECT_TRUE(raw.ends_with("\r\n\r\n"));
}

TEST_F(HttpServerTest, SendsContinueOnlyWhenTheBodyIsWanted) {
  Listen();
  RawClient client(server_->port());

  client.Send("POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.Read().status, 100);
  client.Send("hi");
  EXPECT_EQ(client.Read().body, "POST hi");

  client.Send("POST /refused HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.Read().status, 401);
  EXPECT_TRUE(client.WaitClosed()) << "an unread body cannot be told from the next request";
}

TEST_F(HttpServerTest, ARefusalArrivesAlthoughTheClientGoesOnSending) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  Listen(limits);
  RawClient client(server_->port());
  client.Send("POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\n\r\n");

  const std::string piece(100'000, 'b');
  for (int i = 0; i < 100; ++i) client.TrySend(piece);

  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_TRUE(client.WaitClosed());
}

TEST_F(HttpServerTest, B151_BrokenChunksAreAnsweredAndTheConnectionCloses) {
  Listen();
  for (std::string_view size : {"-2", "80000000", "FFFFFFFFFFFFFFFF", ""}) {
    RawClient client(server_->port());

    client.Send(
        fmt::format("POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{}\r\nabc", size));

    EXPECT_EQ(client.Read().status, 400) << size;
    EXPECT_TRUE(client.WaitClosed());
  }
}

TEST_F(HttpServerTest, B152_SlowHeadersAndBodiesMeetATotalDeadlineAndOthersAreServed) {
  HttpLimits limits;
  limits.header_time = 300ms;
  limits.body_time = 300ms;
  Listen(limits);
  const std::string head = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 40; ++i) {
    slow.push_back(std::make_unique<RawClient>(server_->port()));
    if (i % 2 == 0) slow.back()->Send(head);
  }
  const Instant start = MonotonicNow();

  // A byte at a time: of a chunk's size line, or of the request line. Each byte alone would be in time.
  while (MonotonicNow() - start < 400ms) {
    for (size_t i = 0; i < slow.size(); ++i) slow[i]->TrySend(i % 2 == 0 ? "0" : "P");
    RawClient other(server_->port());
    other.Send(Get("/echo"));
    ASSERT_EQ(other.Read(1s).status, 200);
    std::this_thread::sleep_for(50ms);
  }

  int timed_out = 0;
  for (auto& client : slow) timed_out += client->Read(5s).status == 408 ? 1 : 0;
  EXPECT_EQ(timed_out, 40);
}

TEST_F(HttpServerTest, ASlowHeaderIs408) {
  HttpLimits limits;
  limits.header_time = 100ms;
  Listen(limits);
  RawClient client(server_->port());

  client.Send("GET /echo HT");

  EXPECT_EQ(client.Read().status, 408);
  EXPECT_TRUE(client.WaitClosed());
}

TEST_F(HttpServerTest, AnIdleConnectionClosesWithoutAWord) {
  HttpLimits limits;
  limits.idle_time = 100ms;
  Listen(limits);
  RawClient fresh(server_->port());
  RawClient used(server_->port());
  used.Send(Get("/echo"));
  EXPECT_EQ(used.Read().status, 200);

  EXPECT_EQ(fresh.ReadUntil("x", 3s), "");
  EXPECT_TRUE(fresh.WaitClosed(3s));
  EXPECT_TRUE(used.WaitClosed(5s));
  EXPECT_TRUE(Eventually([&] { return server_->num_connections() == 0; }));
}

TEST_F(HttpServerTest, AtTheCapOfConnectionsTheNextWaitsForAPlace) {
  HttpLimits limits;
  limits.connections = 2;
  Listen(limits);
  auto first = std::make_unique<RawClient>(server_->port());
  RawClient second(server_->port());
  ASSERT_TRUE(Eventually([&] { return server_->num_connections() == 2; }));
  RawClient third(server_->port());
  third.Send(Get("/echo"));
  EXPECT_EQ(third.Read(200ms).status, 0);

  first.reset();

  EXPECT_EQ(third.Read().status, 200);
}

TEST_F(HttpServerTest, AStreamIsChunkedOneWriteAChunk) {
  Listen();
  RawClient client(server_->port());
  client.Send(Get("/stream"));
  auto exchange = handler_.Held();

  OnLoop([&] {
    exchange->StartStream({.content_type = "text/event-stream"}, 0s);
    exchange->Write("data: one\n\n");
    exchange->Write("data: two\n\n");
    exchange->Finish(false);
  });

  const RawResponse response = client.Read();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.chunks, (std::vector<std::string>{"data: one\n\n", "data: two\n\n"}));
  client.Send(Get("/echo"));
  EXPECT_EQ(client.Read().status, 200) << "the connection goes on behind a stream";
  EXPECT_EQ(handler_.num_gone, 0);
}

TEST_F(HttpServerTest, AStreamForHttp10EndsWithTheConnection) {
  Listen();
  RawClient client(server_->port());
  client.Send("GET /stream HTTP/1.0\r\n\r\n");
  auto exchange = handler_.Held();

  OnLoop([&] {
    exchange->StartStream({.content_type = "text/event-stream"}, 0s);
    exchange->Write("data: one\n\n");
    exchange->Finish(false);
  });

  const RawResponse response = client.Read();
  EXPECT_EQ(response.body, "data: one\n\n");
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0u);
}

TEST_F(HttpServerTest, ASilentStreamPingsWithEmptyLines) {
  Listen();
  RawClient client(server_->port());
  client.Send(Get("/stream"));
  auto exchange = handler_.Held();
  OnLoop([&] { exchange->StartStream({}, 50ms); });

  client.ReadUntil("1\r\n\n\r\n1\r\n\n\r\n");
  OnLoop([&] {
    exchange->Write("data: x\n\n");
    exchange->Finish(false);
  });

  const RawResponse response = client.Read();
  ASSERT_GE(response.chunks.size(), 3u);
  EXPECT_EQ(response.chunks.front(), "\n");
  EXPECT_EQ(response.chunks.back(), "data: x\n\n");
}

TEST_F(HttpServerTest, AClientThatLeavesIsNoticedWhileItsRequestWaits) {
  Listen();
  auto client = std::make_unique<RawClient>(server_->port());
  client->Send(Post("/wait", "body"));
  auto exchange = handler_.Held();
  EXPECT_EQ(handler_.num_gone, 0);

  client.reset();

  EXPECT_TRUE(Eventually([&] { return handler_.num_gone == 1; }));
  OnLoop([&] {
    EXPECT_TRUE(exchange->gone());
    exchange->Reply({});  // nobody is there: nothing happens
  });
}

TEST_F(HttpServerTest, BytesOfTheNextRequestAreNotAFarewell) {
  Listen();
  RawClient client(server_->port());
  client.Send(Get("/wait"));
  auto exchange = handler_.Held();
  client.Send(Post("/echo", std::string(200'000, 'x')));  // more than is kept early

  OnLoop([&] { exchange->Reply({.body = "late"}); });

  EXPECT_EQ(client.Read().body, "late");
  EXPECT_EQ(client.Read().body.size(), 200'005u);
  EXPECT_EQ(handler_.num_gone, 0);
}

// Writes events of 1 KiB until the stream asks to pause. How many it took.
class Pump {
 public:
  explicit Pump(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {
    exchange_->StartStream({.content_type = "text/event-stream"}, 0s);
    exchange_->OnPressure([this](bool paused) {
      paused_ = paused;
      (paused ? num_pauses : num_resumes) += 1;
    });
  }
  void FillUp(int at_most) {
    for (; written < at_most && !paused_; ++written) {
      exchange_->Write(fmt::format("data: {:05d} {}\n\n", written, std::string(1000, 'x')));
    }
  }

  int written = 0;
  std::atomic<int> num_pauses = 0, num_resumes = 0;

 private:
  std::shared_ptr<HttpExchange> exchange_;
  bool paused_ = false;
};

TEST_F(HttpServerTest, B101_ASlowReaderPausesTheStreamAndEveryEventArrivesWhole) {
  HttpLimits limits;
  limits.stream_buffer_bytes = 100'000;
  Listen(limits);
  RawClient client(server_->port());
  client.SetReceiveBuffer(65536);
  client.Send(Get("/stream"));
  auto exchange = handler_.Held();
  std::unique_ptr<Pump> pump;
  OnLoop([&] { pump = std::make_unique<Pump>(exchange); });

  // The client reads nothing: the system's buffers fill, then ours, then the pause comes.
  int written = -1;
  while (written != pump->written) {
    written = pump->written;
    OnLoop([&] { pump->FillUp(50'000); });
    std::this_thread::sleep_for(50ms);
  }
  ASSERT_LT(written, 50'000) << "the stream never paused";
  ASSERT_GT(pump->num_pauses, pump->num_resumes);
  EXPECT_EQ(handler_.num_gone, 0);
  const int num_resumes = pump->num_resumes;

  std::thread reader([&] {
    const RawResponse response = client.Read(30s);
    EXPECT_TRUE(response.complete);
    EXPECT_EQ(response.chunks.size(), static_cast<size_t>(written));
    for (const std::string& chunk : response.chunks) {
      EXPECT_TRUE(chunk.starts_with("data: ") && chunk.ends_with("x\n\n")) << "an event was cut";
    }
  });
  EXPECT_TRUE(Eventually([&] { return pump->num_resumes > num_resumes; }, 20s));
  OnLoop([&] { exchange->Finish(false); });
  reader.join();
}

TEST_F(HttpServerTest, AReaderThatStaysPausedIsDropped) {
  HttpLimits limits;
  limits.stream_buffer_bytes = 100'000;
  limits.stream_stall_time = 200ms;
  Listen(limits);
  RawClient client(server_->port());
  client.SetReceiveBuffer(4096);
  client.Send(Get("/stream"));
  auto exchange = handler_.Held();
  std::unique_ptr<Pump> pump;
  OnLoop([&] { pump = std::make_unique<Pump>(exchange); });

  EXPECT_TRUE(Eventually([&] {
    OnLoop([&] { pump->FillUp(50'000); });
    return handler_.num_gone == 1;
  }));
  EXPECT_GE(pump->num_pauses, 1);
  EXPECT_TRUE(Eventually([&] { return server_->num_connections() == 0; }));
}

TEST_F(HttpServerTest, AnEndThatNobodyReadsIsDropped) {
  HttpLimits limits;
  limits.stream_stall_time = 200ms;
  Listen(limits);
  RawClient client(server_->port());
  client.SetReceiveBuffer(4096);
  client.Send(Get("/plain"));
  auto exchange = handler_.Held();

  OnLoop([&] { exchange->Reply({.body = std::string(30'000'000, 'b')}); });

  EXPECT_TRUE(Eventually([&] { return server_->num_connections() == 0; }, 10s));
}

TEST_F(HttpServerTest, WritersThatIgnoreThePauseAreBounded) {
  HttpLimits limits;
  limits.stream_buffer_bytes = 50'000;
  Listen(limits);
  RawClient client(server_->port());
  client.SetReceiveBuffer(4096);
  client.Send(Get("/stream"));
  auto exchange = handler_.Held();
  OnLoop([&] { exchange->StartStream({}, 0s); });

  EXPECT_TRUE(Eventually(
      [&] {
        OnLoop([&] { exchange->Write(std::string(10'000, 'x')); });
        return handler_.num_gone == 1;
      },
      20s));
}

TEST_F(HttpServerTest, ServesAUnixSocketAndRemovesItAtTheEnd) {
  const std::string path = fmt::format("/tmp/paceline-http-test-{}.sock", ::getpid());
  HttpServerOptions options;
  options.uds = path;
  for (int round = 0; round < 2; ++round) {
    auto server = HttpServer::Listen(options, &handler_);
    ASSERT_TRUE(server.ok()) << server.status();
    (*server)->Start();
    RawClient client(path);

    client.Send(Get("/echo"));

    EXPECT_EQ(client.Read().status, 200);
    EXPECT_FALSE(HttpServer::Listen(options, &handler_).ok()) << "the second server of one path is refused";
  }
  struct stat info {};
  EXPECT_NE(::stat(path.c_str(), &info), 0);
}

TEST_F(HttpServerTest, RefusesAnAddressInUseAndNames) {
  Listen();
  HttpServerOptions options;
  options.port = server_->port();

  const auto second = HttpServer::Listen(options, &handler_);

  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(Message(second.status()).find("--port"), std::string_view::npos);
  options.host = "localhost";
  EXPECT_EQ(HttpServer::Listen(options, &handler_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(HttpServerTest, StopClosesWhatIsOpenAndTellsTheRequests) {
  Listen();
  RawClient waiting(server_->port());
  RawClient idle(server_->port());
  waiting.Send(Get("/wait"));
  auto exchange = handler_.Held();

  server_->Stop();

  EXPECT_EQ(handler_.num_gone, 1);
  EXPECT_TRUE(waiting.WaitClosed());
  EXPECT_TRUE(idle.WaitClosed());
  server_->Post([] { FAIL() << "work after Stop"; });
}

}  // namespace
}  // namespace paceline
