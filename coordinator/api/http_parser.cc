#include "coordinator/api/http_parser.h"

#include <algorithm>
#include <optional>

#include "common/base/status.h"

namespace paceline {
namespace {

constexpr size_t kChunkLineBytes = 256;  // size and extensions
constexpr size_t kChunkSizeDigits = 7;   // below 256 MiB: what honest clients send, and no sum can overflow

bool IsTokenChar(unsigned char c) {
  constexpr std::string_view kOther = "!#$%&'*+-.^_`|~";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOther.find(static_cast<char>(c)) != std::string_view::npos;
}

bool IsToken(std::string_view text) { return !text.empty() && std::ranges::all_of(text, IsTokenChar); }

char LowerChar(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

std::string Lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), LowerChar);
  return out;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Empty optional: a bad escape.
std::optional<std::string> PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

// "//v1//models/" -> "/v1/models": clients glue base URLs with slashes of their own.
std::string NormalizeSlashes(std::string_view path) {
  std::string out;
  for (char c : path) {
    if (c == '/' && !out.empty() && out.back() == '/') continue;
    out += c;
  }
  if (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

}  // namespace

std::string_view HttpReason(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Payload Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

void HttpRequestParser::Fail(int status, std::string message) {
  phase_ = Phase::kError;
  error_ = {status, std::move(message)};
  line_.clear();
}

HttpRequest HttpRequestParser::TakeRequest() {
  HttpRequest out = std::move(request_);
  phase_ = Phase::kIdle;
  body_state_ = BodyState::kLength;
  request_ = {};
  line_.clear();
  line_complete_ = false;
  header_bytes_ = header_lines_ = blank_lines_ = 0;
  remaining_ = 0;
  expects_continue_ = chunked_ = false;
  return out;
}

size_t HttpRequestParser::Consume(std::string_view bytes) {
  size_t used = 0;
  if (phase_ == Phase::kHeaderDone) {
    const bool no_body = !chunked_ && remaining_ == 0;
    phase_ = no_body ? Phase::kDone : Phase::kBody;
  }
  while (used < bytes.size() && (phase_ == Phase::kIdle || phase_ == Phase::kHeader)) {
    phase_ = Phase::kHeader;
    const bool first = request_.method.empty();
    used += ConsumeLine(bytes.substr(used), first ? limits_.request_line_bytes : limits_.header_line_bytes,
                        first ? 414 : 431, first ? "request line" : "header line");
    if (line_complete_ && phase_ == Phase::kHeader) OnHeaderLine();
  }
  while (used < bytes.size() && phase_ == Phase::kBody) used += ConsumeBody(bytes.substr(used));
  return used;
}

// Appends to line_ up to and including CRLF. A line is complete without its CRLF.
size_t HttpRequestParser::ConsumeLine(std::string_view bytes, size_t cap, int status_over,
                                      std::string_view what) {
  if (line_complete_) {
    line_.clear();
    line_complete_ = false;
  }
  const size_t newline = bytes.find('\n');
  const size_t count = newline == std::string_view::npos ? bytes.size() : newline + 1;
  if (line_.size() + count > cap + 2) {
    Fail(status_over, fmt::format("{} is over {} bytes", what, cap));
    return count;
  }
  line_.append(bytes.substr(0, count));
  if (newline == std::string_view::npos) return count;
  if (line_.size() < 2 || line_[line_.size() - 2] != '\r') {
    Fail(400, fmt::format("{} does not end with CR LF", what));
    return count;
  }
  line_.resize(line_.size() - 2);
  const bool clean =
      std::ranges::all_of(line_, [](unsigned char c) { return c == '\t' || (c >= 32 && c != 127); });
  if (!clean) {
    Fail(400, fmt::format("{} has a control character", what));
    return count;
  }
  line_complete_ = true;
  return count;
}

void HttpRequestParser::OnHeaderLine() {
  if (request_.method.empty()) {
    if (!line_.empty()) return ParseRequestLine();
    if (++blank_lines_ > 2) Fail(400, "empty lines in front of the request line");
    return;
  }
  if (line_.empty()) return FinishHeader();
  header_bytes_ += line_.size() + 2;
  if (header_bytes_ > limits_.headers_bytes) {
    return Fail(431, fmt::format("headers are over {} bytes", limits_.headers_bytes));
  }
  if (++header_lines_ > limits_.header_lines) {
    return Fail(431, fmt::format("more than {} header lines", limits_.header_lines));
  }
  ParseHeaderField();
}

void HttpRequestParser::ParseRequestLine() {
  const std::string_view line = line_;
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return Fail(400, "request line is not METHOD TARGET VERSION");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!IsToken(method)) return Fail(400, "request method is not a token");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    const bool is_http = version.starts_with("HTTP/") && version.size() <= 8;
    return Fail(is_http ? 505 : 400, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  request_.minor_version = version.back() - '0';
  request_.keep_alive = request_.minor_version == 1;
  ParseTarget(target);
  if (phase_ != Phase::kError) request_.method = method;
}

void HttpRequestParser::ParseTarget(std::string_view target) {
  const bool printable = std::ranges::all_of(target, [](unsigned char c) { return c > 32 && c < 127; });
  if (!printable) return Fail(400, "request target has a character outside printable ASCII");
  if (const size_t scheme = target.find("://");
      !target.starts_with('/') && scheme != std::string_view::npos) {
    const size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  if (target == "*") {
    request_.path = std::string(target);
    return;
  }
  if (!target.starts_with('/')) return Fail(400, "request target does not begin with a slash");
  target = target.substr(0, target.find('#'));
  const size_t question = target.find('?');
  if (question != std::string_view::npos) request_.query = target.substr(question + 1);
  std::optional<std::string> path = PercentDecode(target.substr(0, question));
  if (!path) return Fail(400, "request target has a broken percent escape");
  request_.path = NormalizeSlashes(*path);
}

void HttpRequestParser::ParseHeaderField() {
  const std::string_view line = line_;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    return Fail(400, "header line is not NAME: VALUE");  // a folded line ends here too
  }
  std::string name = Lower(line.substr(0, colon));
  const bool single = name == "host" || name == "content-length" || name == "transfer-encoding" ||
                      name == "authorization" || name == "content-type";
  if (single && std::ranges::any_of(request_.headers, [&](const auto& h) { return h.first == name; })) {
    return Fail(400, fmt::format("header {} is given twice", name));
  }
  request_.headers.emplace_back(std::move(name), std::string(Trim(line.substr(colon + 1))));
}

void HttpRequestParser::ReadContentLength(std::string_view value) {
  const bool digits =
      !value.empty() && std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return Fail(400, "content-length is not a decimal number");
  uint64_t length = 0;
  for (char c : value) {
    length = length * 10 + static_cast<uint64_t>(c - '0');
    if (length > limits_.body_bytes) {
      return Fail(413, fmt::format("body is over {} bytes", limits_.body_bytes));
    }
  }
  remaining_ = length;
}

void HttpRequestParser::FinishHeader() {
  const auto has = [this](std::string_view name) {
    return std::ranges::any_of(request_.headers, [&](const auto& h) { return h.first == name; });
  };
  if (request_.minor_version == 1 && !has("host")) return Fail(400, "header host is missing");
  if (has("transfer-encoding")) {
    if (request_.minor_version == 0) return Fail(400, "transfer-encoding does not exist in HTTP/1.0");
    if (has("content-length")) return Fail(400, "content-length beside transfer-encoding");
    if (Lower(request_.Header("transfer-encoding")) != "chunked") {
      return Fail(400, "transfer-encoding other than chunked");
    }
    chunked_ = true;
    body_state_ = BodyState::kChunkSize;
  } else if (has("content-length")) {
    ReadContentLength(request_.Header("content-length"));
    if (phase_ == Phase::kError) return;
  }
  request_.has_body_length = chunked_ || has("content-length");

  const std::string encoding = Lower(request_.Header("content-encoding"));
  if (!encoding.empty() && encoding != "identity") return Fail(415, "content-encoding is not supported");
  if (has("expect")) {
    if (Lower(request_.Header("expect")) != "100-continue")
      return Fail(417, "only 100-continue can be expected");
    expects_continue_ = true;
  }
  const std::string connection = Lower(request_.Header("connection"));
  if (connection.find("keep-alive") != std::string::npos) request_.keep_alive = true;
  if (connection.find("close") != std::string::npos) request_.keep_alive = false;
  phase_ = Phase::kHeaderDone;
}

size_t HttpRequestParser::ConsumeBody(std::string_view bytes) {
  if (body_state_ == BodyState::kLength || body_state_ == BodyState::kChunkData) return ConsumeBytes(bytes);
  const bool trailer = body_state_ == BodyState::kTrailer;
  const size_t used = ConsumeLine(bytes, trailer ? limits_.header_line_bytes : kChunkLineBytes,
                                  trailer ? 431 : 400, trailer ? "trailer line" : "chunk size line");
  if (!line_complete_ || phase_ == Phase::kError) return used;
  if (body_state_ == BodyState::kChunkSize) {
    OnChunkSize();
  } else if (body_state_ == BodyState::kChunkEnd) {
    if (!line_.empty()) Fail(400, "chunk is longer than its size line says");
    body_state_ = BodyState::kChunkSize;
  } else if (line_.empty()) {
    phase_ = Phase::kDone;
  } else {
    // Trailers are counted and dropped: nothing that arrives behind the body may act as a header.
    header_bytes_ += line_.size() + 2;
    if (header_bytes_ > limits_.headers_bytes || ++header_lines_ > limits_.header_lines) {
      Fail(431, "trailers are over the caps of headers");
    }
  }
  return used;
}

size_t HttpRequestParser::ConsumeBytes(std::string_view bytes) {
  const size_t count = static_cast<size_t>(std::min<uint64_t>(remaining_, bytes.size()));
  request_.body.append(bytes.substr(0, count));
  remaining_ -= count;
  if (remaining_ == 0) {
    if (chunked_) {
      body_state_ = BodyState::kChunkEnd;
    } else {
      phase_ = Phase::kDone;
    }
  }
  return count;
}

void HttpRequestParser::OnChunkSize() {
  std::string_view digits = std::string_view(line_).substr(0, line_.find(';'));
  while (digits.ends_with(' ') || digits.ends_with('\t')) digits.remove_suffix(1);
  const bool hex = !digits.empty() && std::ranges::all_of(digits, [](char c) { return HexDigit(c) >= 0; });
  if (!hex || digits.size() > kChunkSizeDigits)
    return Fail(400, "chunk size is not a hex number below 256 Mi");
  uint64_t size = 0;
  for (char c : digits) size = size * 16 + static_cast<uint64_t>(HexDigit(c));
  if (request_.body.size() + size > limits_.body_bytes) {
    return Fail(413, fmt::format("body is over {} bytes", limits_.body_bytes));
  }
  remaining_ = size;
  body_state_ = size == 0 ? BodyState::kTrailer : BodyState::kChunkData;
}

}  // namespace paceline
