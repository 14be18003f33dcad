// The parser alone: bytes in, requests or the right refusal out, however the bytes are cut.
#include "coordinator/api/http_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace paceline {
namespace {

using Phase = HttpRequestParser::Phase;

constexpr std::string_view kHost = "host: x\r\n";

// Feeds `bytes` in pieces of `piece` until the request is done or refused. How many bytes were used.
size_t Feed(HttpRequestParser& parser, std::string_view bytes, size_t piece = SIZE_MAX) {
  size_t used = 0;
  while (parser.phase() != Phase::kDone && parser.phase() != Phase::kError) {
    const size_t count = parser.Consume(bytes.substr(used, piece));
    used += count;
    if (count == 0 && used == bytes.size() && parser.phase() != Phase::kHeaderDone) break;
  }
  return used;
}

int StatusOf(std::string_view bytes, const HttpLimits& limits = {}) {
  HttpRequestParser parser(limits);
  Feed(parser, bytes);
  return parser.phase() == Phase::kError ? parser.error().status : 0;
}

std::string Chunked(std::string_view rest) {
  return fmt::format("POST / HTTP/1.1\r\n{}transfer-encoding: chunked\r\n\r\n{}", kHost, rest);
}

TEST(HttpRequestParser, ReadsARequestWithABody) {
  HttpRequestParser parser({});

  Feed(parser,
       "POST /v1/completions?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nX-A:  b c \r\n\r\nhello");

  ASSERT_EQ(parser.phase(), Phase::kDone);
  const HttpRequest request = parser.TakeRequest();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/completions");
  EXPECT_EQ(request.query, "a=b");
  EXPECT_EQ(request.Header("x-a"), "b c");
  EXPECT_EQ(request.body, "hello");
  EXPECT_TRUE(request.keep_alive);
}

TEST(HttpRequestParser, StopsBehindTheRequestSoThatTheNextOneCanBegin) {
  const std::string one = fmt::format("GET /a HTTP/1.1\r\n{}\r\n", kHost);
  const std::string two = one + fmt::format("GET /b HTTP/1.1\r\n{}\r\n", kHost);
  HttpRequestParser parser({});

  const size_t used = Feed(parser, two);

  EXPECT_EQ(used, one.size());
  EXPECT_EQ(parser.TakeRequest().path, "/a");
  Feed(parser, std::string_view(two).substr(used));
  EXPECT_EQ(parser.TakeRequest().path, "/b");
}

TEST(HttpRequestParser, ReadsTheSameHoweverTheBytesAreCut) {
  const std::string bytes = Chunked("5;ext=1\r\nhello\r\n01\r\n \r\n5\r\nworld\r\n0\r\nx-trailer: 1\r\n\r\n");
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    HttpRequestParser parser({});

    Feed(parser, bytes, piece);

    ASSERT_EQ(parser.phase(), Phase::kDone) << "piece " << piece;
    const HttpRequest request = parser.TakeRequest();
    EXPECT_EQ(request.body, "hello world");
    EXPECT_EQ(request.Header("x-trailer"), "") << "a trailer must not act as a header";
  }
}

TEST(HttpRequestParser, PausesBehindTheHeaderSoThatABodyCanBeRefusedUnread) {
  HttpRequestParser parser({});

  parser.Consume("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody");

  EXPECT_EQ(parser.phase(), Phase::kHeaderDone);
  EXPECT_TRUE(parser.request().has_body_length);
  EXPECT_EQ(parser.request().body, "");
}

TEST(HttpRequestParser, JoinsDoubledAndTrailingSlashesAndDecodesEscapes) {
  for (std::string_view target :
       {"/v1//models/", "//v1/models", "/v1/%6Dodels", "http://host//v1/models?x"}) {
    HttpRequestParser parser({});

    Feed(parser, fmt::format("GET {} HTTP/1.1\r\n{}\r\n", target, kHost));

    EXPECT_EQ(parser.TakeRequest().path, "/v1/models") << target;
  }
}

TEST(HttpRequestParser, AnswersEachCapWithItsOwnStatus) {
  HttpLimits limits;
  limits.request_line_bytes = 64;
  limits.header_line_bytes = 64;
  limits.headers_bytes = 200;
  limits.header_lines = 5;
  limits.body_bytes = 10;
  const auto get = [](std::string_view target, std::string_view headers) {
    return fmt::format("GET {} HTTP/1.1\r\n{}{}\r\n", target, kHost, headers);
  };
  const auto line = [](size_t bytes) { return "a: " + std::string(bytes - 3, 'v') + "\r\n"; };

  EXPECT_EQ(StatusOf(get("/" + std::string(50, 'p'), ""), limits), 0) << "request line of 64 bytes";
  EXPECT_EQ(StatusOf(get("/" + std::string(51, 'p'), ""), limits), 414);
  EXPECT_EQ(StatusOf(get("/", line(64)), limits), 0);
  EXPECT_EQ(StatusOf(get("/", line(65)), limits), 431);
  EXPECT_EQ(StatusOf(get("/", line(60) + line(60) + line(60)), limits), 0);
  EXPECT_EQ(StatusOf(get("/", line(64) + line(64) + line(64)), limits), 431) << "207 bytes of headers";
  EXPECT_EQ(StatusOf(get("/", line(5) + line(5) + line(5) + line(5)), limits), 0) << "5 lines";
  EXPECT_EQ(StatusOf(get("/", line(5) + line(5) + line(5) + line(5) + line(5)), limits), 431);
  EXPECT_EQ(StatusOf(get("/", "content-length: 10\r\n") + std::string(10, 'b'), limits), 0);
  EXPECT_EQ(StatusOf(get("/", "content-length: 11\r\n"), limits), 413) << "refused before its bytes arrive";
  EXPECT_EQ(StatusOf(Chunked("6\r\nabcdef\r\n5\r\n"), limits), 413) << "at the size line of the chunk";
}

TEST(HttpRequestParser, B154_AHugeHeaderIsRefusedAtTheCapWithMemoryFlat) {
  HttpRequestParser parser({});
  parser.Consume("GET / HTTP/1.1\r\nhost: x\r\na: ");
  const std::string piece(1000, 'v');

  size_t sent = 0;
  while (parser.phase() == Phase::kHeader && sent < (1 << 20)) sent += parser.Consume(piece);

  EXPECT_EQ(parser.error().status, 431);
  EXPECT_LE(sent, 9000u);
}

TEST(HttpRequestParser, B151_BrokenChunkSizesAre400) {
  for (std::string_view size :
       {"-2", "80000000", "FFFFFFFFFFFFFFFF", "", " ", "0x5", "5 5", "+5", "g", " 5", "5\n"}) {
    EXPECT_EQ(StatusOf(Chunked(fmt::format("{}\r\nhello\r\n0\r\n\r\n", size))), 400)
        << "size line '" << size << "'";
  }
  EXPECT_EQ(StatusOf(Chunked("3\r\nhello\r\n0\r\n\r\n")), 400) << "chunk longer than its size";
  EXPECT_EQ(StatusOf(Chunked("5;" + std::string(300, 'e') + "\r\nhello\r\n0\r\n\r\n")), 400)
      << "long extension";
  EXPECT_EQ(StatusOf(Chunked("5\r\nhello\r\n0\r\n\r\n")), 0);
}

TEST(HttpRequestParser, RefusesWhatTwoReadersCouldReadDifferently) {
  const auto post = [](std::string_view headers) {
    return fmt::format("POST / HTTP/1.1\r\n{}{}\r\nhello", kHost, headers);
  };
  const char* bad[] = {
      "content-length: 5\r\ntransfer-encoding: chunked\r\n",
      "content-length: 5\r\ncontent-length: 6\r\n",
      "content-length: 5\r\ncontent-length: 5\r\n",
      "content-length: 5, 5\r\n",
      "content-length: +5\r\n",
      "content-length: -5\r\n",
      "content-length: 0x5\r\n",
      "content-length:\r\n",
      "transfer-encoding: gzip, chunked\r\n",
      "transfer-encoding: identity\r\n",
      "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
      "content-length : 5\r\n",
      " folded: 1\r\n",
      "a: 1\r\n folded\r\n",
      "no colon\r\n",
      ": empty name\r\n",
      "host: y\r\n",
      "a: 1\ncontent-length: 5\r\n",
  };
  for (const char* headers : bad) EXPECT_EQ(StatusOf(post(headers)), 400) << headers;
  EXPECT_EQ(StatusOf(post(std::string_view("a: \0\r\n", 6))), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n"), 400);
}

TEST(HttpRequestParser, RefusesBrokenRequestLines) {
  for (std::string_view line :
       {"GET /", "GET", "GET / HTTP/1.1 x", "G@T / HTTP/1.1", "GET a HTTP/1.1", "GET /%zz HTTP/1.1",
        "GET /%4 HTTP/1.1", "GET / HTTQ/1.1", "GET /\x80 HTTP/1.1", "\x16\x03\x01 / HTTP/1.1"}) {
    EXPECT_EQ(StatusOf(fmt::format("{}\r\n{}\r\n", line, kHost)), 400) << line;
  }
  EXPECT_EQ(StatusOf("PRI * HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400) << "no host";
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\nhost: x\n\n"), 400) << "bare line feeds";
  EXPECT_EQ(StatusOf("\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n"), 0) << "an empty line in front is forgiven";
  EXPECT_EQ(StatusOf("\r\n\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n"), 400) << "many are not";
}

TEST(HttpRequestParser, KnowsWhoWantsTheConnectionKept) {
  const auto keeps = [](std::string_view version, std::string_view header) {
    HttpRequestParser parser({});
    Feed(parser, fmt::format("GET / HTTP/{}\r\n{}{}\r\n", version, kHost, header));
    return parser.TakeRequest().keep_alive;
  };
  EXPECT_TRUE(keeps("1.1", ""));
  EXPECT_FALSE(keeps("1.1", "connection: close\r\n"));
  EXPECT_FALSE(keeps("1.0", ""));
  EXPECT_TRUE(keeps("1.0", "connection: Keep-Alive\r\n"));
}

// Random edits of a good request: any outcome but a crash, a stall or more memory than the caps allow.
TEST(HttpRequestParser, SurvivesDamagedRequests) {
  const std::string good = Chunked("5\r\nhello\r\n3;a=b\r\nxyz\r\n0\r\nt: 1\r\n\r\n");
  std::mt19937 random(20240611);
  size_t refused = 0, read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (unsigned edit = 0; edit < 1 + random() % 3; ++edit) {
      const size_t at = random() % bytes.size();
      if (random() % 3 == 0) {
        bytes.erase(at, 1);
      } else {
        bytes[at] = static_cast<char>(random());
      }
    }
    HttpRequestParser parser({});

    Feed(parser, bytes, 1 + random() % 40);

    refused += parser.phase() == Phase::kError ? 1 : 0;
    read += parser.phase() == Phase::kDone ? 1 : 0;
    ASSERT_LE(parser.request().body.size(), bytes.size());
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(read, 100u);
}

}  // namespace
}  // namespace paceline
