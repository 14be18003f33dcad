// HttpRequest, HttpResponse, HttpLimits: what passes between a connection and the code that answers.
//
// Plain values, no sockets. Header names of a request are lower case. Limits are the caps of the outside
// contract; each is checked before the bytes it bounds are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace paceline {

struct HttpLimits {
  size_t request_line_bytes = 8 * 1024;  // over: 414
  size_t header_line_bytes = 8 * 1024;   // over: 431
  size_t headers_bytes = 64 * 1024;      // over: 431; all header lines together
  size_t header_lines = 100;             // over: 431
  size_t body_bytes = 4 * 1024 * 1024;   // over: 413
  Duration header_time = 10s;            // from the first byte of a request to the end of its header: 408
  Duration body_time = 60s;              // from there to the end of the body: 408
  Duration idle_time = 75s;              // between requests: closed without a word
  size_t connections = 10240;            // over: not accepted until another closes
  size_t stream_buffer_bytes = 1 << 20;  // unsent bytes of one stream; over: the request is paused
  Duration stream_stall_time = 30s;      // a stream paused for so long, or an end that nobody reads: dropped
};

struct HttpRequest {
  std::string method;
  std::string path;   // decoded, single slashes, no slash at the end (but "/")
  std::string query;  // raw, without '?'
  int minor_version = 1;
  std::vector<std::pair<std::string, std::string>> headers;  // in order, names in lower case
  std::string body;
  bool has_body_length = false;  // Content-Length or chunked
  bool keep_alive = true;
  std::string request_id;  // set by the handler's Admit

  // The first header of that (lower case) name; empty when absent.
  std::string_view Header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";  // empty: no content-type header
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  bool close = false;  // close the connection after this answer
};

// "Not Found" for 404; "Status" for a code without a name here.
std::string_view HttpReason(int status);

}  // namespace paceline
