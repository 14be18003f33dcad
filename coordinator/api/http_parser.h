// HttpRequestParser: bytes of a connection into requests, strictly, with every cap checked before the bytes
// are kept.
//
// Pure: no socket, no clock. It is our own, not Beast's, since the contract gives each cap a status of its
// own (request line 414, header line, count and total 431, body 413) and Beast has one limit for a header.
// Strict where leniency lets two readers disagree (request smuggling): CRLF only, no folded lines, no space
// before a colon, one Host, one Content-Length, Transfer-Encoding exactly "chunked" and never beside a
// Content-Length, chunk sizes of at most 7 hex digits.
// Limits: holds at most one line of the header, or the body, each within its cap.
//
//   HttpRequestParser parser(limits);
//   size_t used = parser.Consume(bytes);   // stops behind the header, behind the request, at an error
//   if (parser.phase() == HttpRequestParser::Phase::kDone) Use(parser.TakeRequest());
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "coordinator/api/http_types.h"

namespace paceline {

struct HttpProtocolError {
  int status = 0;  // 0 = none
  std::string message;
};

class HttpRequestParser {
 public:
  enum class Phase {
    kIdle,        // no byte of a request yet
    kHeader,      // within the header
    kHeaderDone,  // the caller may refuse; the next Consume goes on with the body
    kBody,
    kDone,   // TakeRequest
    kError,  // error() says what; the connection cannot be used again
  };

  explicit HttpRequestParser(const HttpLimits& limits) : limits_(limits) {}

  // How many of `bytes` were used.
  size_t Consume(std::string_view bytes);
  Phase phase() const { return phase_; }
  const HttpProtocolError& error() const { return error_; }
  // What is known of the request: its head from kHeaderDone on.
  HttpRequest& request() { return request_; }
  bool expects_continue() const { return expects_continue_; }
  // The finished request; the parser starts again.
  HttpRequest TakeRequest();

 private:
  enum class BodyState { kLength, kChunkSize, kChunkData, kChunkEnd, kTrailer };

  size_t ConsumeLine(std::string_view bytes, size_t cap, int status_over, std::string_view what);
  void OnHeaderLine();
  void ParseRequestLine();
  void ParseTarget(std::string_view target);
  void ParseHeaderField();
  void FinishHeader();
  void ReadContentLength(std::string_view value);
  size_t ConsumeBody(std::string_view bytes);
  size_t ConsumeBytes(std::string_view bytes);
  void OnChunkSize();
  void Fail(int status, std::string message);

  const HttpLimits limits_;
  Phase phase_ = Phase::kIdle;
  BodyState body_state_ = BodyState::kLength;
  HttpRequest request_;
  HttpProtocolError error_;
  std::string line_;  // the line that is being read, without CRLF once complete
  bool line_complete_ = false;
  size_t header_bytes_ = 0;  // of header lines and trailers
  size_t header_lines_ = 0;
  size_t blank_lines_ = 0;  // before the request line
  uint64_t remaining_ = 0;  // bytes of the body or the chunk still to come
  bool expects_continue_ = false;
  bool chunked_ = false;
};

}  // namespace paceline
