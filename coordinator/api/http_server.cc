#include "coordinator/api/http_server.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <variant>

#include "common/base/log.h"
#include "coordinator/api/http_connection.h"

namespace paceline {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using TcpAcceptor = asio::ip::tcp::acceptor;
using UnixAcceptor = asio::local::stream_protocol::acceptor;

constexpr Duration kAcceptRetry = 100ms;  // out of descriptors: until some connection closes
constexpr int kBacklog = 4096;

Status Refused(std::string_view what, std::string_view where, const error_code& error) {
  return UnavailableError("http: cannot {} {}: {}; choose another --host, --port or --uds", what, where,
                          error.message());
}

StatusOr<TcpAcceptor> ListenTcp(asio::io_context& io, const std::string& host, uint16_t port) {
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) return InvalidArgumentError("http: --host wants an IP address, found '{}'", host);
  const asio::ip::tcp::endpoint endpoint(address, port);
  const std::string where = fmt::format("{} port {}", host, port);
  TcpAcceptor acceptor(io);
  if (acceptor.open(endpoint.protocol(), error)) return Refused("open a socket for", where, error);
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (acceptor.bind(endpoint, error)) return Refused("bind", where, error);
  if (acceptor.listen(kBacklog, error)) return Refused("listen on", where, error);
  return acceptor;
}

// A socket file that nobody answers on is what a killed server left behind; anything else stays.
void RemoveStaleSocket(asio::io_context& io, const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return;
  asio::local::stream_protocol::socket probe(io);
  error_code error;
  if (probe.connect(asio::local::stream_protocol::endpoint(path), error)) ::unlink(path.c_str());
}

StatusOr<UnixAcceptor> ListenUnix(asio::io_context& io, const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return InvalidArgumentError("http: --uds wants a path below {} bytes, found {}",
                                sizeof(sockaddr_un::sun_path), path.size());
  }
  RemoveStaleSocket(io, path);
  const asio::local::stream_protocol::endpoint endpoint(path);
  error_code error;
  UnixAcceptor acceptor(io);
  if (acceptor.open(endpoint.protocol(), error)) return Refused("open a socket for", path, error);
  if (acceptor.bind(endpoint, error)) return Refused("bind", path, error);
  if (acceptor.listen(kBacklog, error)) return Refused("listen on", path, error);
  return acceptor;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, HttpHandler* handler)
      : options_(std::move(options)), handler_(handler), work_(io_.get_executor()), retry_(io_) {}

  Status Listen() {
    if (!options_.uds.empty()) {
      ASSIGN_OR_RETURN(UnixAcceptor acceptor, ListenUnix(io_, options_.uds));
      acceptor_.emplace<UnixAcceptor>(std::move(acceptor));
    } else {
      ASSIGN_OR_RETURN(TcpAcceptor acceptor, ListenTcp(io_, options_.host, options_.port));
      port_ = acceptor.local_endpoint().port();
      acceptor_.emplace<TcpAcceptor>(std::move(acceptor));
    }
    return OkStatus();
  }

  void Start() {
    AcceptNext();
    thread_ = std::thread([this] { Run(); });
    pthread_setname_np(thread_.native_handle(), options_.thread_name.substr(0, 15).c_str());
  }

  void Post(std::function<void()> work) {
    std::lock_guard lock(post_mutex_);
    if (!stopped_) asio::post(io_, std::move(work));
  }

  void StopAccepting() {
    Post([this] {
      CloseAcceptor();
      for (auto& connection : Connections()) connection->CloseWhenIdle();
    });
  }

  void Stop() {
    if (stop_called_.exchange(true)) return;
    Post([this] {
      CloseAcceptor();
      for (auto& connection : Connections()) connection->Close();
      work_.reset();
    });
    if (thread_.joinable()) thread_.join();
    {
      std::lock_guard lock(post_mutex_);
      stopped_ = true;
    }
    // What was posted between the end of the loop and the line above still holds requests and connections.
    io_.restart();
    io_.poll();
  }

  uint16_t port() const { return port_; }
  size_t num_connections() const { return num_connections_.load(std::memory_order_relaxed); }

 private:
  void Run() {
    try {
      io_.run();
    } catch (const std::exception& error) {
      // Asio and the standard library throw only when memory or descriptors for the loop itself are gone.
      LogError("http_loop_failed", "error=\"{}\"", error.what());
      std::abort();
    }
  }

  // A copy: closing takes connections out of the map.
  std::vector<std::shared_ptr<HttpConnection>> Connections() {
    std::vector<std::shared_ptr<HttpConnection>> out;
    for (auto& [raw, weak] : connections_) {
      if (auto connection = weak.lock()) out.push_back(std::move(connection));
    }
    return out;
  }

  void CloseAcceptor() {
    retry_.cancel();
    error_code ignored;
    if (auto* tcp = std::get_if<TcpAcceptor>(&acceptor_)) tcp->close(ignored);
    if (auto* local = std::get_if<UnixAcceptor>(&acceptor_); local != nullptr && local->is_open()) {
      local->close(ignored);
      ::unlink(options_.uds.c_str());
    }
  }

  void AcceptNext() {
    if (accepting_ || num_connections() >= options_.limits.connections) return;
    const auto accept = [this](auto& acceptor) {
      if (!acceptor.is_open()) return;
      accepting_ = true;
      acceptor.async_accept([this](const error_code& error, auto socket) {
        accepting_ = false;
        if (!error) {
          OnAccepted(HttpConnection::Socket(std::move(socket)));
        } else if (error == asio::error::operation_aborted) {
          return;
        } else {
          return RetryAccept(error);
        }
        AcceptNext();
      });
    };
    if (auto* tcp = std::get_if<TcpAcceptor>(&acceptor_)) accept(*tcp);
    if (auto* local = std::get_if<UnixAcceptor>(&acceptor_)) accept(*local);
  }

  void RetryAccept(const error_code& error) {
    LogWarn("http_accept_failed", "error=\"{}\" retry_ms={}", error.message(), ToMicros(kAcceptRetry) / 1000);
    retry_.expires_after(kAcceptRetry);
    retry_.async_wait([this](const error_code& cancelled) {
      if (!cancelled) AcceptNext();
    });
  }

  void OnAccepted(HttpConnection::Socket socket) {
    error_code ignored;
    if (std::holds_alternative<TcpAcceptor>(acceptor_)) {
      socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    }
    auto connection = std::make_shared<HttpConnection>(
        std::move(socket), options_.limits, handler_, [this](HttpConnection* closed) {
          connections_.erase(closed);
          num_connections_.store(connections_.size(), std::memory_order_relaxed);
          AcceptNext();
        });
    connections_.emplace(connection.get(), connection);
    num_connections_.store(connections_.size(), std::memory_order_relaxed);
    connection->Start();
  }

  const HttpServerOptions options_;
  HttpHandler* const handler_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::variant<std::monostate, TcpAcceptor, UnixAcceptor> acceptor_;
  asio::steady_timer retry_;
  bool accepting_ = false;
  std::unordered_map<HttpConnection*, std::weak_ptr<HttpConnection>> connections_;  // I/O thread
  std::atomic<size_t> num_connections_ = 0;
  uint16_t port_ = 0;
  std::atomic<bool> stop_called_ = false;
  std::mutex post_mutex_;  // orders Post against the end of Stop
  bool stopped_ = false;
  std::thread thread_;
};

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { Stop(); }

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(HttpServerOptions options, HttpHandler* handler) {
  auto impl = std::make_shared<Impl>(std::move(options), handler);
  RETURN_IF_ERROR(impl->Listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

void HttpServer::Start() { impl_->Start(); }
void HttpServer::Post(std::function<void()> work) { impl_->Post(std::move(work)); }
HttpServer::Poster HttpServer::poster() const {
  return [impl = impl_](std::function<void()> work) { impl->Post(std::move(work)); };
}
uint16_t HttpServer::port() const { return impl_->port(); }
size_t HttpServer::num_connections() const { return impl_->num_connections(); }
void HttpServer::StopAccepting() { impl_->StopAccepting(); }
void HttpServer::Stop() { impl_->Stop(); }

}  // namespace paceline
