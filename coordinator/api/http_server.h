// HttpServer: an asynchronous HTTP/1.1 listener (TCP or unix socket) with one I/O thread.
//
// Owner: ApiServer (or a test). Threading: the handler and every HttpExchange method run on the I/O thread;
// other threads reach it through Post. Nothing here blocks, so thousands of idle streams cost memory only.
// Ordering: requests of one connection are answered one after the other; while one is being answered the
// socket is still read, so a client that leaves is noticed at once, whatever the request waits for.
// Limits: HttpLimits; each cap is checked before the bytes are kept. At `connections` the listener stops
// accepting until one closes.
// Failure: what the peer does wrong is answered with the status of the contract and the connection closes
// after a short read-out, so that the answer is not lost to a reset.
//
//   ASSIGN_OR_RETURN(auto server, HttpServer::Listen({.host = "127.0.0.1", .port = 0}, &handler));
//   server->port();  // the one the system chose
//   server->Start();
//   server->Stop();
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "coordinator/api/http_types.h"

namespace paceline {

// One request that is being answered: either Reply once, or StartStream, Write..., Finish. Calls after the
// client has gone do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual void Reply(HttpResponse response) = 0;

  // Sends the head of a chunked answer (HTTP/1.0: until close). With a ping interval > 0, an empty line is
  // sent whenever nothing was written for that long.
  virtual void StartStream(HttpResponse head, Duration ping_interval) = 0;
  // One chunk, one write: an event is never cut by buffering.
  virtual void Write(std::string bytes) = 0;
  virtual void Finish(bool close) = 0;

  // `gone` runs once if the client leaves, or is dropped for not reading, before the answer is complete.
  virtual void OnGone(std::function<void()> gone) = 0;
  // `pressure(true)` when the unsent bytes pass the stream's buffer cap, `pressure(false)` when they are half
  // of it again.
  virtual void OnPressure(std::function<void(bool paused)> pressure) = 0;
  virtual bool gone() const = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // The header is there, the body is not. A response refuses the request before its body is read.
  virtual std::optional<HttpResponse> Admit(HttpRequest& head) = 0;
  virtual void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) = 0;
  // The body of an answer to a request that broke the protocol. `head` has what was understood of it.
  virtual HttpResponse ProtocolError(const HttpRequest& head, int status, std::string_view message) = 0;
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address, not a name
  uint16_t port = 0;               // 0 = the system chooses
  std::string uds;                 // path of a unix socket; given: host and port are not used
  HttpLimits limits;
  std::string thread_name = "http";
};

class HttpServer {
 public:
  // Binds and listens; nobody is accepted before Start. `handler` outlives the server. Unavailable when the
  // address is in use.
  static StatusOr<std::unique_ptr<HttpServer>> Listen(HttpServerOptions options, HttpHandler* handler);
  ~HttpServer();
  void Start();

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Runs `work` on the I/O thread. From any thread; after Stop it is dropped.
  void Post(std::function<void()> work);
  // The same as a value that may outlive the server, for those who call back late.
  using Poster = std::function<void(std::function<void()> work)>;
  Poster poster() const;

  uint16_t port() const;           // 0 for a unix socket
  size_t num_connections() const;  // any thread
  void StopAccepting();            // any thread; connections at work go on, idle ones are closed
  void Stop();                     // closes everything, joins the thread; idempotent

  class Impl;

 private:
  explicit HttpServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace paceline
