#include "coordinator/api/http_connection.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/base/status.h"

namespace paceline {
namespace {

using boost::system::error_code;

constexpr size_t kEarlyBytesMax = 64 * 1024;    // pipelined input kept while a request is answered
constexpr size_t kReadOutBytesMax = 64u << 20;  // thrown away behind a refusal, so that it arrives
constexpr Duration kReadOutTime = 3s;

// What the handler holds. The connection may die first.
class Exchange : public HttpExchange {
 public:
  explicit Exchange(std::weak_ptr<HttpConnection> connection) : connection_(std::move(connection)) {}

  void Reply(HttpResponse response) override {
    if (auto c = Take()) c->Reply(std::move(response));
  }
  void StartStream(HttpResponse head, Duration ping_interval) override {
    if (auto c = connection_.lock()) c->StartStream(std::move(head), ping_interval);
  }
  void Write(std::string bytes) override {
    if (auto c = connection_.lock()) c->Write(std::move(bytes));
  }
  void Finish(bool close) override {
    if (auto c = Take()) c->Finish(close);
  }
  void OnGone(std::function<void()> gone) override {
    if (auto c = connection_.lock()) {
      c->set_on_gone(std::move(gone));
    } else if (!answered_) {
      gone();
    }
  }
  void OnPressure(std::function<void(bool)> pressure) override {
    if (auto c = connection_.lock()) c->set_on_pressure(std::move(pressure));
  }
  bool gone() const override { return !answered_ && connection_.expired(); }
  void Detach() { connection_.reset(); }

 private:
  std::shared_ptr<HttpConnection> Take() {
    auto connection = connection_.lock();
    connection_.reset();
    answered_ = connection != nullptr;
    return connection;
  }

  std::weak_ptr<HttpConnection> connection_;
  bool answered_ = false;
};

std::string HeadText(const HttpResponse& response, int minor_version, bool keep_alive,
                     std::string_view framing) {
  std::string out =
      fmt::format("HTTP/1.{} {} {}\r\n", minor_version, response.status, HttpReason(response.status));
  if (!response.content_type.empty()) out += fmt::format("content-type: {}\r\n", response.content_type);
  for (const auto& [name, value] : response.headers) out += fmt::format("{}: {}\r\n", name, value);
  out += framing;
  out += keep_alive ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
  return out;
}

}  // namespace

HttpConnection::HttpConnection(Socket socket, const HttpLimits& limits, HttpHandler* handler,
                               std::function<void(HttpConnection*)> closed)
    : socket_(std::move(socket)),
      limits_(limits),
      handler_(handler),
      closed_(std::move(closed)),
      parser_(limits),
      read_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()),
      ping_timer_(socket_.get_executor()) {}

void HttpConnection::Start() {
  ArmReadTimer(limits_.idle_time);
  ReadMore();
}

void HttpConnection::Close() {
  if (state_ == State::kClosed) return;
  const bool unanswered = state_ == State::kAnswering;
  state_ = State::kClosed;
  read_timer_.cancel();
  write_timer_.cancel();
  ping_timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
  auto self = shared_from_this();
  if (exchange_ != nullptr) static_cast<Exchange*>(exchange_.get())->Detach();
  exchange_.reset();
  on_pressure_ = nullptr;
  auto gone = std::exchange(on_gone_, nullptr);
  if (unanswered && gone) gone();
  if (auto closed = std::exchange(closed_, nullptr)) closed(this);
}

void HttpConnection::CloseWhenIdle() {
  stopping_ = true;
  close_after_ = true;
  if (state_ == State::kReading && parser_.phase() == HttpRequestParser::Phase::kIdle) Close();
}

// ---- reading

void HttpConnection::ReadMore() {
  if (reading_ || state_ == State::kClosed) return;
  if (state_ == State::kAnswering || state_ == State::kFlushing) {
    if (early_.size() >= kEarlyBytesMax) return;
  }
  reading_ = true;
  socket_.async_read_some(boost::asio::buffer(read_buffer_),
                          [self = shared_from_this()](const error_code& error, size_t count) {
                            self->reading_ = false;
                            if (self->state_ == State::kClosed) return;
                            if (error) return self->PeerGone();
                            self->OnRead(count);
                          });
}

void HttpConnection::PeerGone() {
  // The end of the peer's bytes is the end of the peer: a half-closed socket reads the same as a closed one.
  Close();
}

void HttpConnection::OnRead(size_t count) {
  if (state_ == State::kReadOut) {
    read_out_bytes_ += count;
    if (read_out_bytes_ > kReadOutBytesMax) return Close();
    return ReadMore();
  }
  early_.append(read_buffer_.data(), count);
  if (state_ == State::kReading) ProcessInput();
  ReadMore();
}

void HttpConnection::ProcessInput() {
  using Phase = HttpRequestParser::Phase;
  size_t used = 0;
  while (state_ == State::kReading) {
    const Phase before = parser_.phase();
    used += parser_.Consume(std::string_view(early_).substr(used));
    const Phase phase = parser_.phase();
    if (before == Phase::kIdle && phase != Phase::kIdle && !header_timer_armed_) {
      header_timer_armed_ = true;
      ArmReadTimer(limits_.header_time);
    }
    if (phase == Phase::kError) {
      RefuseProtocol(parser_.error().status, parser_.error().message);
    } else if (phase == Phase::kHeaderDone) {
      AdmitRequest();
    } else if (phase == Phase::kDone) {
      Dispatch();
    } else {
      break;  // more bytes are needed
    }
    if (phase == Phase::kDone) break;
  }
  early_.erase(0, std::min(used, early_.size()));
}

void HttpConnection::AdmitRequest() {
  HttpRequest& head = parser_.request();
  minor_version_ = head.minor_version;
  keep_alive_ = head.keep_alive;
  head_request_ = head.method == "HEAD";
  ArmReadTimer(limits_.body_time);
  if (std::optional<HttpResponse> refusal = handler_->Admit(head)) {
    // An unread body cannot be told from the next request; without one the connection can go on.
    if (head.has_body_length) refusal->close = true;
    state_ = State::kAnswering;
    const bool close = refusal->close || !keep_alive_;
    if (!close) (void)parser_.Consume({}), (void)parser_.TakeRequest();
    return Reply(std::move(*refusal));
  }
  if (parser_.expects_continue()) Enqueue("HTTP/1.1 100 Continue\r\n\r\n");
}

void HttpConnection::Dispatch() {
  read_timer_.cancel();
  state_ = State::kAnswering;
  exchange_ = std::make_shared<Exchange>(weak_from_this());
  handler_->Handle(parser_.TakeRequest(), exchange_);
}

void HttpConnection::RefuseProtocol(int status, std::string_view message) {
  HttpResponse response = handler_->ProtocolError(parser_.request(), status, message);
  response.status = status;
  response.close = true;
  minor_version_ = 1;
  state_ = State::kAnswering;
  Reply(std::move(response));
}

void HttpConnection::ArmReadTimer(Duration after) {
  read_timer_.expires_after(after);
  read_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && self->state_ != State::kClosed) self->OnReadDeadline();
  });
}

void HttpConnection::OnReadDeadline() {
  using Phase = HttpRequestParser::Phase;
  if (read_timer_.expiry() > MonotonicNow()) return;  // armed again after this wait had been queued
  if (state_ == State::kReadOut) return Close();
  if (state_ != State::kReading) return;
  if (parser_.phase() == Phase::kIdle) return Close();
  RefuseProtocol(408,
                 parser_.phase() == Phase::kHeader ? "the header took too long" : "the body took too long");
}

// ---- answering

void HttpConnection::SendHead(const HttpResponse& response, bool chunked, bool has_body) {
  close_after_ = close_after_ || response.close || !keep_alive_ || stopping_;
  std::string framing;
  if (chunked) {
    framing = "transfer-encoding: chunked\r\n";
  } else if (has_body) {
    framing = fmt::format("content-length: {}\r\n", response.body.size());
  }
  std::string bytes = HeadText(response, minor_version_, !close_after_, framing);
  if (has_body && !head_request_) bytes += response.body;
  Enqueue(std::move(bytes));
}

void HttpConnection::Reply(HttpResponse response) {
  if (state_ != State::kAnswering) return;
  SendHead(response, false, response.status != 204);
  Finish(response.close);
}

void HttpConnection::StartStream(HttpResponse head, Duration ping_interval) {
  if (state_ != State::kAnswering) return;
  chunked_ = minor_version_ == 1;
  if (!chunked_) head.close = true;
  ping_interval_ = ping_interval;
  SendHead(head, chunked_, false);
  ArmPing();
}

void HttpConnection::Write(std::string bytes) {
  if (state_ != State::kAnswering || bytes.empty()) return;
  if (chunked_) bytes = fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
  Enqueue(std::move(bytes));
  UpdatePressure();
  ArmPing();
}

void HttpConnection::Finish(bool close) {
  if (state_ != State::kAnswering) return;
  close_after_ = close_after_ || close;
  if (chunked_) Enqueue("0\r\n\r\n");
  chunked_ = false;
  state_ = State::kFlushing;
  ping_timer_.cancel();
  on_gone_ = nullptr;
  on_pressure_ = nullptr;
  exchange_.reset();
  paused_ = false;
  ArmWriteTimer();
  if (out_.empty()) {
    boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->AnswerDone(); });
  }
}

void HttpConnection::AnswerDone() {
  if (state_ != State::kFlushing || !out_.empty()) return;
  write_timer_.cancel();
  if (close_after_) return BeginReadOut();
  state_ = State::kReading;
  header_timer_armed_ = false;
  ArmReadTimer(limits_.idle_time);
  ProcessInput();
  ReadMore();
}

void HttpConnection::BeginReadOut() {
  // Closing with unread input would send a reset, which can destroy the answer on its way.
  state_ = State::kReadOut;
  early_.clear();
  early_.shrink_to_fit();
  error_code ignored;
  socket_.shutdown(boost::asio::socket_base::shutdown_send, ignored);
  ArmReadTimer(kReadOutTime);
  ReadMore();
}

// ---- writing

void HttpConnection::Enqueue(std::string bytes) {
  out_bytes_ += bytes.size();
  out_.push_back(std::move(bytes));
  WriteMore();
}

void HttpConnection::WriteMore() {
  if (writing_ || out_.empty() || state_ == State::kClosed) return;
  writing_ = true;
  const std::string& front = out_.front();
  socket_.async_write_some(boost::asio::buffer(front.data() + out_offset_, front.size() - out_offset_),
                           [self = shared_from_this()](const error_code& error, size_t count) {
                             self->writing_ = false;
                             if (self->state_ == State::kClosed) return;
                             if (error) return self->PeerGone();
                             self->OnWritten(count);
                           });
}

void HttpConnection::OnWritten(size_t count) {
  out_bytes_ -= count;
  out_offset_ += count;
  if (out_offset_ == out_.front().size()) {
    out_.pop_front();
    out_offset_ = 0;
  }
  UpdatePressure();
  if (!out_.empty()) {
    if (state_ == State::kFlushing) ArmWriteTimer();
    return WriteMore();
  }
  AnswerDone();
}

void HttpConnection::UpdatePressure() {
  if (state_ != State::kAnswering) return;
  if (out_bytes_ > 4 * limits_.stream_buffer_bytes) {  // an engine that does not pause
    boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Close(); });
    return;
  }
  const bool pause = out_bytes_ > limits_.stream_buffer_bytes;
  const bool resume = out_bytes_ <= limits_.stream_buffer_bytes / 2;
  if (!paused_ && pause) {
    paused_ = true;
    ArmWriteTimer();
    if (on_pressure_) on_pressure_(true);
  } else if (paused_ && resume) {
    paused_ = false;
    write_timer_.cancel();
    if (on_pressure_) on_pressure_(false);
  }
}

void HttpConnection::ArmWriteTimer() {
  write_timer_.expires_after(limits_.stream_stall_time);
  write_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->state_ == State::kClosed) return;
    if (self->write_timer_.expiry() > MonotonicNow()) return;
    if (self->paused_ || self->state_ == State::kFlushing) self->Close();
  });
}

void HttpConnection::ArmPing() {
  if (ping_interval_ <= Duration::zero()) return;
  ping_timer_.expires_after(ping_interval_);
  ping_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->state_ != State::kAnswering) return;
    if (self->ping_timer_.expiry() > MonotonicNow()) return;
    // Behind unsent bytes it would say nothing that they do not say.
    if (!self->out_.empty()) return self->ArmPing();
    self->Write("\n");
  });
}

}  // namespace paceline
