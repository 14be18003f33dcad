#include "coordinator/api/api_front.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "common/text/template/chat_template.h"
#include "common/text/tokenizer.h"
#include "coordinator/web/page.h"

namespace paceline {
namespace {

using nlohmann::ordered_json;

constexpr size_t kRequestIdBytesMax = 128;

std::string Dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

int64_t WallSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A client's id is echoed and logged, so it must be a plain word.
bool IsPlainId(std::string_view id) {
  return !id.empty() && id.size() <= kRequestIdBytesMax && std::ranges::all_of(id, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

}  // namespace

class ApiFront::OpenRequest {
 public:
  explicit OpenRequest(std::atomic<size_t>* count) : count_(count) { ++*count_; }
  ~OpenRequest() { --*count_; }
  OpenRequest(const OpenRequest&) = delete;
  OpenRequest& operator=(const OpenRequest&) = delete;

 private:
  std::atomic<size_t>* count_;
};

struct ApiFront::Visit {
  RouteAction action = RouteAction::kChat;
  std::string body;
  std::shared_ptr<HttpExchange> exchange;
  Headers headers;
  Instant arrived;
  std::shared_ptr<OpenRequest> open;
  std::atomic<bool> gone = false;
  // What the door found.
  MaybeError error;
  std::string answer;
  PreparedRequest prepared;
};

ApiFront::ApiFront(const ApiOptions& options, Engine* engine, ServerMetrics* metrics)
    : options_(options),
      engine_(engine),
      metrics_(metrics),
      door_(options),
      pool_(options.door_threads, options.limits.queued_requests),
      started_(WallSeconds()),
      id_nonce_(fmt::format("{:014x}", DrawSeed())) {}

std::string ApiFront::NewId(std::string_view prefix) {
  return fmt::format("{}{}{:010x}", prefix, id_nonce_, ++next_id_);
}

// ---- before the body

const Route* ApiFront::RouteOf(const HttpRequest& request) const {
  return FindRoute(WithoutRoot(request.path, options_.root_path));
}

std::optional<HttpResponse> ApiFront::Admit(HttpRequest& head) {
  const std::string_view given = head.Header("x-request-id");
  head.request_id = IsPlainId(given) ? std::string(given) : NewId("req-");
  std::optional<HttpResponse> refusal = CheckHead(head);
  if (refusal) return WithHeaders(*std::move(refusal), head);
  return std::nullopt;
}

std::optional<HttpResponse> ApiFront::CheckHead(const HttpRequest& head) const {
  const Route* route = RouteOf(head);
  if (route == nullptr) {
    return ErrorResponse(
        {404, "not_found", fmt::format("no route {}", head.path.substr(0, 256)), "", {}, {}});
  }
  if (head.method == "OPTIONS") return Preflight(head, *route, options_);
  if (!AllowsMethod(*route, head.method)) {
    HttpResponse response =
        ErrorResponse({405,
                       "method_not_allowed",
                       fmt::format("{} wants {}", head.path.substr(0, 256), route->methods),
                       "",
                       {},
                       {}});
    response.headers.emplace_back("allow", fmt::format("{}, OPTIONS", route->methods));
    response.close = true;
    return response;
  }
  MaybeError error = route->needs_key ? CheckKey(head, options_.api_keys) : std::nullopt;
  if (!error && route->json_body) error = CheckJsonBody(head);
  if (!error) return std::nullopt;
  HttpResponse response = ErrorResponse(*error);
  response.close = error->status != 401;
  return response;
}

HttpResponse ApiFront::ProtocolError(const HttpRequest& head, int status, std::string_view message) {
  const char* code = status == 408   ? "request_timeout"
                     : status == 413 ? "body_too_large"
                     : status == 414 ? "uri_too_long"
                     : status == 415 ? "unsupported_media_type"
                     : status == 431 ? "headers_too_large"
                                     : "bad_request";
  HttpRequest known = head;
  if (known.request_id.empty()) known.request_id = NewId("req-");
  return WithHeaders(ErrorResponse({status, code, std::string(message), "", {}, {}}), known);
}

ApiFront::Headers ApiFront::CommonHeaders(const HttpRequest& request) const {
  Headers headers = CorsHeaders(request, options_);
  if (options_.request_id_headers) headers.emplace_back("x-request-id", request.request_id);
  return headers;
}

HttpResponse ApiFront::WithHeaders(HttpResponse response, const HttpRequest& request) const {
  Headers common = CommonHeaders(request);
  response.headers.insert(response.headers.end(), common.begin(), common.end());
  return response;
}

// ---- answers

void ApiFront::Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  const Route* route = RouteOf(request);
  if (!route->json_body) return exchange->Reply(WithHeaders(AnswerNow(*route, request), request));
  auto visit = std::make_shared<Visit>();
  visit->action = route->action;
  visit->body = std::move(request.body);
  visit->headers = CommonHeaders(request);
  visit->arrived = MonotonicNow();
  visit->open = std::make_shared<OpenRequest>(&num_open_);
  visit->exchange = std::move(exchange);
  Queue(std::move(visit));
}

HttpResponse ApiFront::AnswerNow(const Route& route, const HttpRequest& request) const {
  HttpResponse response;
  switch (route.action) {
    case RouteAction::kHealth:
      return Health();
    case RouteAction::kModels:
      return Models();
    case RouteAction::kModel:
      return Model(WithoutRoot(request.path, options_.root_path));
    case RouteAction::kTokenizerInfo:
      return TokenizerInfo();
    case RouteAction::kVersion:
      response.body = Dump({{"version", options_.version}});
      return response;
    case RouteAction::kMetrics:
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = metrics_->Text();
      return response;
    case RouteAction::kPage:
      response.content_type = "text/html; charset=utf-8";
      response.headers.emplace_back("content-security-policy", kPageSecurityPolicy);
      response.body = kPage;
      return response;
    default:
      return ErrorResponse(
          {501, "not_implemented", fmt::format("{} is not offered here", route.path), "", {}, {}});
  }
}

HttpResponse ApiFront::Health() const {
  HttpResponse response;
  response.content_type.clear();
  if (draining_ || !engine_->Readiness().ok()) {
    response.status = 503;
    response.headers.emplace_back("retry-after", "2");
  }
  return response;
}

namespace {

ordered_json ModelJson(const std::string& name, int64_t created, const ApiOptions& options) {
  return {{"id", name},
          {"object", "model"},
          {"created", created},
          {"owned_by", "paceline"},
          {"root", options.model_root.empty() ? name : options.model_root},
          {"parent", nullptr},
          {"max_model_len", options.max_model_len}};
}

}  // namespace

HttpResponse ApiFront::Models() const {
  ordered_json list = ordered_json::array();
  for (const std::string& name : options_.served_model_names)
    list.push_back(ModelJson(name, started_, options_));
  HttpResponse response;
  response.body = Dump({{"object", "list"}, {"data", std::move(list)}});
  return response;
}

HttpResponse ApiFront::Model(std::string_view path) const {
  const std::string_view name = path.substr(std::string_view("/v1/models/").size());
  for (const std::string& served : options_.served_model_names) {
    HttpResponse response;
    response.body = Dump(ModelJson(served, started_, options_));
    if (served == name || "/" + std::string(name) == served) return response;  // doubled slashes were joined
  }
  return ErrorResponse(
      {404, "model_not_found", fmt::format("no model '{}' here", name.substr(0, 128)), "model", {}, {}});
}

HttpResponse ApiFront::TokenizerInfo() const {
  if (!options_.enable_tokenizer_info) {
    return ErrorResponse(
        {404, "not_found", "start with --enable-tokenizer-info-endpoint for this route", "", {}, {}});
  }
  ordered_json info = {{"tokenizer_class", "paceline"},
                       {"vocab_size", options_.tokenizer->vocab_size()},
                       {"bos_token", options_.bos_token},
                       {"eos_token", options_.eos_token},
                       {"model_max_length", options_.max_model_len}};
  info["chat_template"] = options_.chat_template == nullptr ? ordered_json(nullptr)
                                                            : ordered_json(options_.chat_template->source());
  HttpResponse response;
  response.body = Dump(info);
  return response;
}

// ---- through the door

void ApiFront::Queue(std::shared_ptr<Visit> visit) {
  const auto refuse = [&](const Status& status) {
    ApiError error = ErrorFromStatus(status);
    metrics_->Rejected(error.code);
    HttpResponse response = ErrorResponse(error);
    response.headers.insert(response.headers.end(), visit->headers.begin(), visit->headers.end());
    visit->exchange->Reply(std::move(response));
  };
  if (draining_) return refuse(UnavailableError("draining: the server stops; send the request elsewhere"));
  visit->exchange->OnGone([visit] { visit->gone = true; });
  const bool queued = pool_.Add([this, visit] {
    if (!visit->gone) RunAtDoor(visit);
    post_([this, visit] { Return(visit); });
  });
  if (!queued) refuse(ResourceExhaustedError("{} requests wait to be read", options_.limits.queued_requests));
}

void ApiFront::RunAtDoor(const std::shared_ptr<Visit>& visit) const {
  try {
    switch (visit->action) {
      case RouteAction::kChat:
        visit->error = door_.Chat(visit->body, &visit->prepared);
        break;
      case RouteAction::kCompletion:
        visit->error = door_.Completion(visit->body, &visit->prepared);
        break;
      case RouteAction::kTokenize:
        visit->error = door_.Tokenize(visit->body, &visit->answer);
        break;
      default:
        visit->error = door_.Detokenize(visit->body, &visit->answer);
        break;
    }
  } catch (const std::exception& error) {
    // Of the JSON library or of memory. The text may quote the body, so it stays out of the log.
    LogError("request_not_read", "bytes={} kind={}", visit->body.size(), typeid(error).name());
    visit->error = ApiError{500, "internal_error", "the request could not be read", "", {}, {}};
  }
  visit->body.clear();
}

void ApiFront::Return(const std::shared_ptr<Visit>& visit) {
  if (visit->gone) return;
  const bool generates = visit->action == RouteAction::kChat || visit->action == RouteAction::kCompletion;
  if (!visit->error && generates) return StartJob(visit);
  HttpResponse response;
  if (visit->error) {
    response = ErrorResponse(*visit->error);
  } else {
    response.body = std::move(visit->answer);
  }
  response.headers.insert(response.headers.end(), visit->headers.begin(), visit->headers.end());
  visit->exchange->Reply(std::move(response));
}

void ApiFront::StartJob(const std::shared_ptr<Visit>& visit) {
  GenerationJob::Origin origin;
  origin.exchange = visit->exchange;
  origin.headers = visit->headers;
  origin.id = NewId(visit->prepared.chat ? "chatcmpl-" : "cmpl-");
  origin.arrived = visit->arrived;
  // The job takes itself out of the list when it is done.
  auto slot = std::make_shared<std::weak_ptr<GenerationJob>>();
  auto done = [this, slot, open = visit->open] {
    if (auto job = slot->lock()) jobs_.erase(job);
  };
  auto job = std::make_shared<GenerationJob>(JobServices{engine_, metrics_, &options_, post_},
                                             std::move(visit->prepared), std::move(origin), std::move(done));
  *slot = job;
  jobs_.insert(job);
  job->Start();
}

void ApiFront::AbortAll(const Status& status) {
  const auto jobs = jobs_;  // each takes itself out
  for (const auto& job : jobs) job->Abort(status);
}

}  // namespace paceline
