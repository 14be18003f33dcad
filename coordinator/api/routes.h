// The routes of the API port, the right each one needs, and the checks that need no body.
//
// One table: a route that is not in it does not exist. Pure functions, any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/api/api_error.h"
#include "coordinator/api/api_options.h"
#include "coordinator/api/http_types.h"

namespace paceline {

enum class RouteAction {
  kChat,
  kCompletion,
  kModels,
  kModel,
  kHealth,
  kVersion,
  kMetrics,
  kPage,
  kTokenize,
  kDetokenize,
  kTokenizerInfo,
  kNotOffered,
};

struct Route {
  std::string_view path;
  std::string_view methods;  // "GET, HEAD": the Allow header
  RouteAction action;
  bool needs_key = true;
  bool json_body = false;
  bool prefix = false;  // path + "/" + anything
};

std::span<const Route> ApiRoutes();

// Nullptr: no such path. `path` is normalized, without the root path.
const Route* FindRoute(std::string_view path);
std::string_view WithoutRoot(std::string_view path, std::string_view root_path);
bool AllowsMethod(const Route& route, std::string_view method);

// Bearer key, compared in constant time with every key; nothing when the server has none.
MaybeError CheckKey(const HttpRequest& request, const std::vector<std::string>& keys);
// 411 without a length, 415 for a body that is not JSON in UTF-8.
MaybeError CheckJsonBody(const HttpRequest& request);

// CORS headers of an answer to this request; empty when its origin is not allowed.
std::vector<std::pair<std::string, std::string>> CorsHeaders(const HttpRequest& request,
                                                             const ApiOptions& options);
// The answer to OPTIONS.
HttpResponse Preflight(const HttpRequest& request, const Route& route, const ApiOptions& options);

}  // namespace paceline
