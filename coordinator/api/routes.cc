#include "coordinator/api/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace paceline {
namespace {

constexpr std::string_view kGet = "GET, HEAD";

constexpr std::array<Route, 18> kRoutes = {{
    {"/v1/chat/completions", "POST", RouteAction::kChat, true, true},
    {"/v1/completions", "POST", RouteAction::kCompletion, true, true},
    {"/v1/models", kGet, RouteAction::kModels},
    {"/v1/models", kGet, RouteAction::kModel, true, false, true},
    {"/health", kGet, RouteAction::kHealth, false},
    {"/ping", "GET, HEAD, POST", RouteAction::kHealth, false},
    {"/version", kGet, RouteAction::kVersion},
    {"/metrics", kGet, RouteAction::kMetrics},
    {"/", kGet, RouteAction::kPage, false},
    {"/tokenize", "POST", RouteAction::kTokenize, true, true},
    {"/detokenize", "POST", RouteAction::kDetokenize, true, true},
    {"/tokenizer_info", kGet, RouteAction::kTokenizerInfo},
    {"/v1/embeddings", "POST", RouteAction::kNotOffered},
    {"/rerank", "POST", RouteAction::kNotOffered},
    {"/v1/rerank", "POST", RouteAction::kNotOffered},
    {"/v1/responses", "POST", RouteAction::kNotOffered},
    {"/v1/messages", "POST", RouteAction::kNotOffered},
    {"/v1/responses", "GET, POST, DELETE", RouteAction::kNotOffered, true, false, true},
}};

std::string Lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

// Takes the time of `given`'s length, whatever the key is.
bool SameBytes(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<unsigned char>(given[i] ^ expected);
  }
  return difference == 0 && !key.empty();
}

std::string Join(const std::vector<std::string>& list) { return fmt::format("{}", fmt::join(list, ", ")); }

bool Contains(const std::vector<std::string>& list, std::string_view value) {
  return std::ranges::find(list, value) != list.end();
}

}  // namespace

std::span<const Route> ApiRoutes() { return kRoutes; }

const Route* FindRoute(std::string_view path) {
  for (const Route& route : kRoutes) {
    const bool fits = route.prefix ? path.size() > route.path.size() + 1 && path.starts_with(route.path) &&
                                         path[route.path.size()] == '/'
                                   : path == route.path;
    if (fits) return &route;
  }
  return nullptr;
}

std::string_view WithoutRoot(std::string_view path, std::string_view root_path) {
  while (root_path.ends_with('/')) root_path.remove_suffix(1);
  if (root_path.empty() || !path.starts_with(root_path)) return path;
  const std::string_view rest = path.substr(root_path.size());
  if (rest.empty()) return "/";
  return rest.front() == '/' ? rest : path;
}

bool AllowsMethod(const Route& route, std::string_view method) {
  std::string_view rest = route.methods;
  while (!rest.empty()) {
    const size_t comma = rest.find(", ");
    if (rest.substr(0, comma) == method) return true;
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 2);
  }
  return false;
}

MaybeError CheckKey(const HttpRequest& request, const std::vector<std::string>& keys) {
  if (keys.empty()) return std::nullopt;
  const std::string_view header = request.Header("authorization");
  const bool bearer = Lower(header.substr(0, 7)) == "bearer ";
  const std::string_view given = bearer ? header.substr(7) : std::string_view();
  bool known = false;
  for (const std::string& key : keys) known = SameBytes(given, key) || known;
  if (known) return std::nullopt;
  return ApiError{401, "invalid_api_key", "a valid key is needed: Authorization: Bearer KEY", "", {}, {}};
}

MaybeError CheckJsonBody(const HttpRequest& request) {
  if (!request.has_body_length) {
    return ApiError{
        411, "length_required", "a body needs content-length or transfer-encoding: chunked", "", {}, {}};
  }
  const std::string type = Lower(request.Header("content-type"));
  const std::string_view media = std::string_view(type).substr(0, type.find(';'));
  const bool json =
      media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"));
  const size_t charset = type.find("charset=");
  const std::string_view name =
      charset == std::string::npos ? "utf-8" : std::string_view(type).substr(charset + 8);
  const bool utf8 = name.starts_with("utf-8") || name.starts_with("\"utf-8") || name.starts_with("utf8");
  if (json && utf8) return std::nullopt;
  // Also what keeps a foreign web page out: a browser sends JSON across origins only after a preflight.
  return ApiError{415, "unsupported_media_type", "content-type must be application/json in UTF-8", "", {},
                  {}};
}

std::vector<std::pair<std::string, std::string>> CorsHeaders(const HttpRequest& request,
                                                             const ApiOptions& options) {
  std::vector<std::pair<std::string, std::string>> out;
  const std::string_view origin = request.Header("origin");
  const bool any = Contains(options.allowed_origins, "*");
  if (options.allowed_origins.empty()) return out;
  if (!any) out.emplace_back("vary", "Origin");
  if (origin.empty() || (!any && !Contains(options.allowed_origins, origin))) return out;
  // "*" and credentials exclude one another, so the origin is named then.
  out.emplace_back("access-control-allow-origin",
                   any && !options.allow_credentials ? "*" : std::string(origin));
  if (options.allow_credentials) out.emplace_back("access-control-allow-credentials", "true");
  out.emplace_back("access-control-expose-headers", "x-request-id, retry-after, retry-after-ms");
  return out;
}

HttpResponse Preflight(const HttpRequest& request, const Route& route, const ApiOptions& options) {
  HttpResponse response;
  response.status = 204;
  response.content_type.clear();
  response.headers.emplace_back("allow", fmt::format("{}, OPTIONS", route.methods));
  auto cors = CorsHeaders(request, options);
  const bool allowed =
      std::ranges::any_of(cors, [](const auto& h) { return h.first == "access-control-allow-origin"; });
  if (!allowed) return response;
  const bool any_header = Contains(options.allowed_headers, "*");
  const std::string methods = options.allowed_methods.empty() || Contains(options.allowed_methods, "*")
                                  ? "GET, POST, OPTIONS"
                                  : Join(options.allowed_methods);
  std::string headers = Join(options.allowed_headers);
  if (any_header) headers = std::string(request.Header("access-control-request-headers"));
  if (headers.empty()) headers = "authorization, content-type, x-request-id";
  response.headers.emplace_back("access-control-allow-methods", methods);
  response.headers.emplace_back("access-control-allow-headers", headers);
  response.headers.emplace_back("access-control-max-age", "600");
  return response;
}

}  // namespace paceline
