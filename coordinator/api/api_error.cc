#include "coordinator/api/api_error.h"

#include <nlohmann/json.hpp>

namespace paceline {

std::string_view ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

ApiError ErrorFromStatus(const Status& status) {
  const std::string message(Message(status));
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return {429, "queue_full", message, "", 1s, {}};
    case absl::StatusCode::kUnavailable: {
      const bool loading = message.starts_with("loading"), draining = message.starts_with("draining");
      return {503, loading ? "loading" : draining ? "draining" : "unavailable", message, "", 2s, {}};
    }
    case absl::StatusCode::kInvalidArgument:
      return {400, "invalid_value", message, "", {}, {}};
    default:
      return {500, "internal_error", message, "", {}, {}};
  }
}

std::string ErrorBody(const ApiError& error) {
  nlohmann::ordered_json inner = {{"message", error.message}, {"type", ErrorType(error.status)}};
  inner["param"] =
      error.param.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(error.param);
  inner["code"] = error.code;
  if (error.context) {
    inner["n_prompt_tokens"] = error.context->first;
    inner["n_ctx"] = error.context->second;
  }
  nlohmann::ordered_json body;
  body["error"] = std::move(inner);
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = ErrorBody(error);
  if (error.retry_after > Duration::zero()) {
    const int64_t millis = ToMicros(error.retry_after) / 1000;
    response.headers.emplace_back("retry-after", std::to_string((millis + 999) / 1000));
    response.headers.emplace_back("retry-after-ms", std::to_string(millis));
  }
  if (error.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  if (error.status == 501) response.headers.emplace_back("x-should-retry", "false");
  return response;
}

}  // namespace paceline
