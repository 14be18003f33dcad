// RawClient: a socket and an HTTP reader for tests of the front. Sends what it is told, byte for byte.
//
// Blocking, with a deadline on every wait: a hang is a failed expectation, not a hung test.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"

namespace paceline::testing {

struct RawResponse {
  int status = 0;  // 0: none came
  std::map<std::string, std::string> headers;
  std::string body;                 // chunked bodies joined
  std::vector<std::string> chunks;  // as they were framed
  bool complete = false;            // content-length reached, last chunk seen, or closed without framing

  // The texts behind "data: ", in order.
  std::vector<std::string> Events() const;
};

class RawClient {
 public:
  explicit RawClient(uint16_t port);
  explicit RawClient(const std::string& unix_path);
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void Send(std::string_view bytes);
  // Like Send; answers false when the peer has closed.
  bool TrySend(std::string_view bytes);
  RawResponse Read(Duration at_most = 10s);
  // Reads until `text` has been seen in the raw bytes; answers all raw bytes so far.
  std::string ReadUntil(std::string_view text, Duration at_most = 10s);
  // True when the peer closes within the time; what it still sends is thrown away.
  bool WaitClosed(Duration at_most = 10s);
  void Close();
  void SetReceiveBuffer(int bytes);

 private:
  bool Fill(Instant deadline);  // more into buffer_; false at the deadline or the end
  bool Line(std::string* line, Instant deadline);
  void ReadChunks(RawResponse* response, Instant deadline);

  int fd_ = -1;
  std::string buffer_;
  bool ended_ = false;
};

std::string Get(std::string_view path, std::string_view headers = "");
std::string Post(std::string_view path, std::string_view json, std::string_view headers = "");

}  // namespace paceline::testing
