#include "tests/unit/coordinator_api/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace paceline::testing {
namespace {

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return text;
}

int PollMillis(Instant deadline) {
  return static_cast<int>(std::max<int64_t>(0, ToMicros(deadline - MonotonicNow()) / 1000 + 1));
}

}  // namespace

std::vector<std::string> RawResponse::Events() const {
  std::vector<std::string> out;
  size_t at = 0;
  while ((at = body.find("data: ", at)) != std::string::npos) {
    if (at > 0 && body[at - 1] != '\n') {
      ++at;
      continue;
    }
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    out.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return out;
}

RawClient::RawClient(uint16_t port) {
  fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
  CHECK_GE(fd_, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0) << std::strerror(errno);
}

RawClient::RawClient(const std::string& unix_path) {
  fd_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK_GE(fd_, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  unix_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  CHECK_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0) << std::strerror(errno);
}

void RawClient::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void RawClient::SetReceiveBuffer(int bytes) {
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

bool RawClient::TrySend(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void RawClient::Send(std::string_view bytes) { CHECK(TrySend(bytes)) << std::strerror(errno); }

bool RawClient::Fill(Instant deadline) {
  if (ended_) return false;
  pollfd waiting{fd_, POLLIN, 0};
  if (::poll(&waiting, 1, PollMillis(deadline)) <= 0) return false;
  char bytes[16384];
  const ssize_t count = ::recv(fd_, bytes, sizeof(bytes), 0);
  if (count <= 0) {
    ended_ = true;
    return false;
  }
  buffer_.append(bytes, static_cast<size_t>(count));
  return true;
}

bool RawClient::Line(std::string* line, Instant deadline) {
  size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!Fill(deadline)) return false;
  }
  *line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return true;
}

void RawClient::ReadChunks(RawResponse* response, Instant deadline) {
  std::string line;
  while (Line(&line, deadline)) {
    const size_t size = std::stoul(line, nullptr, 16);
    while (buffer_.size() < size + 2) {
      if (!Fill(deadline)) return;
    }
    if (size > 0) response->chunks.push_back(buffer_.substr(0, size));
    response->body += buffer_.substr(0, size);
    buffer_.erase(0, size + 2);
    if (size == 0) {
      response->complete = true;
      return;
    }
  }
}

RawResponse RawClient::Read(Duration at_most) {
  const Instant deadline = MonotonicNow() + at_most;
  RawResponse response;
  std::string line;
  if (!Line(&line, deadline) || line.size() < 12) return response;
  response.status = std::stoi(line.substr(9, 3));
  while (Line(&line, deadline) && !line.empty()) {
    const size_t colon = line.find(": ");
    response.headers[Lower(line.substr(0, colon))] = line.substr(colon + 2);
  }
  if (response.status == 100) return response;
  if (response.headers.count("transfer-encoding") != 0) {
    ReadChunks(&response, deadline);
  } else if (response.headers.count("content-length") != 0) {
    const size_t size = std::stoul(response.headers["content-length"]);
    while (buffer_.size() < size && Fill(deadline)) {
    }
    response.complete = buffer_.size() >= size;
    response.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
  } else if (response.status != 204) {
    while (Fill(deadline)) {
    }
    response.complete = ended_;
    response.body = std::exchange(buffer_, std::string());
  } else {
    response.complete = true;
  }
  return response;
}

std::string RawClient::ReadUntil(std::string_view text, Duration at_most) {
  const Instant deadline = MonotonicNow() + at_most;
  while (buffer_.find(text) == std::string::npos && Fill(deadline)) {
  }
  return buffer_;
}

bool RawClient::WaitClosed(Duration at_most) {
  const Instant deadline = MonotonicNow() + at_most;
  while (Fill(deadline)) buffer_.clear();
  return ended_;
}

std::string Get(std::string_view path, std::string_view headers) {
  return fmt::format("GET {} HTTP/1.1\r\nhost: test\r\n{}\r\n", path, headers);
}

std::string Post(std::string_view path, std::string_view json, std::string_view headers) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{}\r\n{}",
      path, json.size(), headers, json);
}

}  // namespace paceline::testing
