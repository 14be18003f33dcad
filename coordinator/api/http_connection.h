// HttpConnection: one socket, its requests one after the other. Internal to http_server.cc.
//
// Owner: shared_ptr held by the operations that are in flight, and by the listener's set until closed. I/O
// thread only. The socket is read all the time, also while a request is being answered, so that a client
// that leaves is seen from the socket alone; bytes that arrive early (pipelining) are kept up to a cap, then
// reading rests until the answer is out.
//
// Deadlines, one timer each: reading (idle, header, body), writing (nobody reads), ping (silent stream).
#pragma once

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "coordinator/api/http_parser.h"
#include "coordinator/api/http_server.h"

namespace paceline {

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // `closed` runs once, when the socket is shut for good.
  HttpConnection(Socket socket, const HttpLimits& limits, HttpHandler* handler,
                 std::function<void(HttpConnection*)> closed);

  void Start();
  void Close();          // at once, whatever is in flight
  void CloseWhenIdle();  // after the answer at work, or now

  // Called by the exchange of the request that is being answered.
  void Reply(HttpResponse response);
  void StartStream(HttpResponse head, Duration ping_interval);
  void Write(std::string bytes);
  void Finish(bool close);
  void set_on_gone(std::function<void()> gone) { on_gone_ = std::move(gone); }
  void set_on_pressure(std::function<void(bool)> pressure) { on_pressure_ = std::move(pressure); }

 private:
  enum class State {
    kReading,    // a request, or waiting for one
    kAnswering,  // the handler has it
    kFlushing,   // the answer is complete, its bytes are not all out
    kReadOut,    // we said goodbye; what the peer still sends is thrown away for a moment
    kClosed,
  };

  void ReadMore();
  void OnRead(size_t count);
  void ProcessInput();
  void AdmitRequest();
  void Dispatch();
  void RefuseProtocol(int status, std::string_view message);
  void SendHead(const HttpResponse& response, bool chunked, bool has_body);
  void Enqueue(std::string bytes);
  void WriteMore();
  void OnWritten(size_t count);
  void AnswerDone();
  void BeginReadOut();
  void UpdatePressure();
  void ArmReadTimer(Duration after);
  void OnReadDeadline();
  void ArmWriteTimer();
  void ArmPing();
  void PeerGone();

  Socket socket_;
  const HttpLimits limits_;
  HttpHandler* const handler_;
  std::function<void(HttpConnection*)> closed_;

  State state_ = State::kReading;
  HttpRequestParser parser_;
  std::array<char, 16 * 1024> read_buffer_;
  std::string early_;  // bytes behind the request that is being answered
  bool reading_ = false;
  bool header_timer_armed_ = false;
  size_t read_out_bytes_ = 0;

  std::shared_ptr<HttpExchange> exchange_;
  std::function<void()> on_gone_;
  std::function<void(bool)> on_pressure_;
  bool head_request_ = false;  // HEAD: the answer has no body
  bool chunked_ = false;
  int minor_version_ = 1;
  bool keep_alive_ = true;
  bool close_after_ = false;
  bool stopping_ = false;

  std::deque<std::string> out_;
  size_t out_offset_ = 0;  // of out_.front() that is sent
  size_t out_bytes_ = 0;   // unsent
  bool writing_ = false;
  bool paused_ = false;
  Duration ping_interval_{};

  boost::asio::steady_timer read_timer_, write_timer_, ping_timer_;
};

}  // namespace paceline
