// ApiError: an answer that is an error, in the shape of the OpenAI API.
//
// {"error": {"message", "type", "param", "code"}} and, for a prompt that does not fit, n_prompt_tokens and
// n_ctx. Message texts name what was wanted, what was found and what to change; they never carry prompt text.
//
//   return ApiError::Invalid("temperature", "temperature must be at least 0, found {}", found);
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "coordinator/api/http_types.h"

namespace paceline {

struct ApiError {
  int status = 400;
  std::string code;  // invalid_value, unsupported_parameter, model_not_found...
  std::string message;
  std::string param;                                     // field of the body; empty = null
  Duration retry_after{};                                // > 0: retry-after headers
  std::optional<std::pair<uint32_t, uint32_t>> context;  // n_prompt_tokens, n_ctx

  template <typename... Args>
  static ApiError Invalid(std::string_view param, fmt::format_string<Args...> format, Args&&... args) {
    return {400, "invalid_value", fmt::format(format, std::forward<Args>(args)...), std::string(param), {},
            {}};
  }
  template <typename... Args>
  static ApiError Unsupported(std::string_view param, fmt::format_string<Args...> format, Args&&... args) {
    return {400,
            "unsupported_parameter",
            fmt::format(format, std::forward<Args>(args)...),
            std::string(param),
            {},
            {}};
  }
};

// Empty = fine.
using MaybeError = std::optional<ApiError>;

// What a Status of the engine means to a client: 429 for a full queue, 503 for one that cannot serve now
// (code loading, draining or unavailable, after the first word of its message), 400 for a refused argument,
// else 500.
ApiError ErrorFromStatus(const Status& status);

// invalid_request_error, authentication_error, rate_limit_error, server_error...: the `type` of a status.
std::string_view ErrorType(int status);

std::string ErrorBody(const ApiError& error);
HttpResponse ErrorResponse(const ApiError& error);

}  // namespace paceline
