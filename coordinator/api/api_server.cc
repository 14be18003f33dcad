#include "coordinator/api/api_server.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/log.h"
#include "common/text/tokenizer.h"
#include "coordinator/api/api_front.h"
#include "coordinator/api/http_server.h"

namespace paceline {
namespace {

constexpr Duration kPoll = 10ms;    // between two looks at what is still open
constexpr Duration kFarewell = 1s;  // for the last bytes of aborted answers

Status CheckOptions(const ApiOptions& options) {
  if (options.served_model_names.empty()) return InvalidArgumentError("api: --served-model-name is empty");
  if (options.tokenizer == nullptr) return InvalidArgumentError("api: a tokenizer is needed");
  if (options.max_model_len < 2) {
    return InvalidArgumentError("api: --max-model-len wants at least 2, found {}", options.max_model_len);
  }
  const auto has_empty = [](const std::vector<std::string>& list) {
    return std::ranges::any_of(list, [](const std::string& s) { return s.empty(); });
  };
  if (has_empty(options.api_keys)) return InvalidArgumentError("api: an --api-key is empty");
  if (has_empty(options.served_model_names))
    return InvalidArgumentError("api: a --served-model-name is empty");
  if (!options.default_chat_template_kwargs.empty()) {
    const auto kwargs = nlohmann::json::parse(options.default_chat_template_kwargs, nullptr, false);
    if (!kwargs.is_object()) {
      return InvalidArgumentError("api: --default-chat-template-kwargs wants a JSON object, found '{}'",
                                  options.default_chat_template_kwargs);
    }
  }
  const uint32_t vocab_size = options.vocab_size != 0 ? options.vocab_size : options.tokenizer->vocab_size();
  for (TokenId id : options.eos_token_ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= vocab_size) {
      return InvalidArgumentError("api: end id {} is outside the vocabulary of {}", id, vocab_size);
    }
  }
  return OkStatus();
}

}  // namespace

class ApiServer::Impl {
 public:
  Impl(ApiOptions options, Engine* engine, ServerMetrics* metrics)
      : options_(std::move(options)), front_(options_, engine, metrics) {}

  Status Start() {
    HttpServerOptions http;
    http.host = options_.host;
    http.port = options_.port;
    http.uds = options_.uds;
    http.limits = options_.http;
    http.thread_name = "api-io";
    ASSIGN_OR_RETURN(server_, HttpServer::Listen(std::move(http), &front_));
    front_.set_poster(server_->poster());
    server_->Start();
    return OkStatus();
  }

  uint16_t port() const { return server_->port(); }
  size_t num_open_requests() const { return front_.num_open_requests(); }
  void BeginDrain() { front_.set_draining(); }

  void Stop(Duration drain) {
    if (server_ == nullptr || stopped_) return;
    stopped_ = true;
    BeginDrain();
    // At least one look later: an answer that is out may still be on the books for a moment.
    WaitWhile([this] { return num_open_requests() > 0; }, std::max(drain, kPoll));
    if (const size_t open = num_open_requests(); open > 0) LogWarn("api_aborts", "requests={}", open);
    server_->StopAccepting();
    front_.StopDoor();  // what it still returns is posted before the abort
    server_->Post([this] { front_.AbortAll(UnavailableError("draining: the server stops")); });
    WaitWhile([this] { return server_->num_connections() > 0; }, kFarewell);
    server_->Stop();
  }

 private:
  template <typename Condition>
  static void WaitWhile(Condition condition, Duration at_most) {
    const Instant deadline = MonotonicNow() + at_most;
    while (condition() && MonotonicNow() < deadline) std::this_thread::sleep_for(kPoll);
  }

  const ApiOptions options_;
  ApiFront front_;
  std::unique_ptr<HttpServer> server_;
  bool stopped_ = false;
};

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ApiServer::~ApiServer() { Stop(Duration::zero()); }

StatusOr<std::unique_ptr<ApiServer>> ApiServer::Start(ApiOptions options, Engine* engine,
                                                      ServerMetrics* metrics) {
  RETURN_IF_ERROR(CheckOptions(options));
  auto impl = std::make_unique<Impl>(std::move(options), engine, metrics);
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

uint16_t ApiServer::port() const { return impl_->port(); }
void ApiServer::BeginDrain() { impl_->BeginDrain(); }
void ApiServer::Stop(Duration drain) { impl_->Stop(drain); }
size_t ApiServer::num_open_requests() const { return impl_->num_open_requests(); }

}  // namespace paceline
