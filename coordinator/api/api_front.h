// ApiFront: what each route answers. The handler behind HttpServer.
//
// I/O thread only, but for num_open_requests. Cheap routes are answered at once; bodies go to the door
// threads and come back as a GenerationJob or an answer. Every answer carries the request id and what CORS
// asks for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "coordinator/api/api_options.h"
#include "coordinator/api/door_pool.h"
#include "coordinator/api/generation_job.h"
#include "coordinator/api/http_server.h"
#include "coordinator/api/metrics.h"
#include "coordinator/api/request_door.h"
#include "coordinator/api/routes.h"
#include "coordinator/request/generation.h"

namespace paceline {

class ApiFront : public HttpHandler {
 public:
  // All three outlive the front.
  ApiFront(const ApiOptions& options, Engine* engine, ServerMetrics* metrics);

  void set_poster(HttpServer::Poster post) { post_ = std::move(post); }
  void set_draining() { draining_ = true; }  // any thread
  void AbortAll(const Status& status);       // ends every open generation
  void StopDoor() { pool_.Stop(); }          // not on the I/O thread
  size_t num_open_requests() const { return num_open_.load(); }

  std::optional<HttpResponse> Admit(HttpRequest& head) override;
  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  HttpResponse ProtocolError(const HttpRequest& head, int status, std::string_view message) override;

 private:
  using Headers = GenerationJob::Headers;
  class OpenRequest;  // counts itself while it lives
  struct Visit;       // one request on its way through the door

  const Route* RouteOf(const HttpRequest& request) const;
  Headers CommonHeaders(const HttpRequest& request) const;
  HttpResponse WithHeaders(HttpResponse response, const HttpRequest& request) const;
  std::optional<HttpResponse> CheckHead(const HttpRequest& head) const;
  HttpResponse AnswerNow(const Route& route, const HttpRequest& request) const;
  HttpResponse Health() const;
  HttpResponse Models() const;
  HttpResponse Model(std::string_view path) const;
  HttpResponse TokenizerInfo() const;
  void Queue(std::shared_ptr<Visit> visit);
  void RunAtDoor(const std::shared_ptr<Visit>& visit) const;
  void Return(const std::shared_ptr<Visit>& visit);
  void StartJob(const std::shared_ptr<Visit>& visit);
  std::string NewId(std::string_view prefix);

  const ApiOptions& options_;
  Engine* const engine_;
  ServerMetrics* const metrics_;
  HttpServer::Poster post_;
  RequestDoor door_;
  DoorPool pool_;
  const int64_t started_;       // seconds, wall clock
  const std::string id_nonce_;  // of this server run
  uint64_t next_id_ = 0;
  std::atomic<bool> draining_ = false;
  std::atomic<size_t> num_open_ = 0;
  std::unordered_set<std::shared_ptr<GenerationJob>> jobs_;
};

}  // namespace paceline
