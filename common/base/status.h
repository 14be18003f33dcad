// Errors of the outside world: absl::Status, makers that format, and the two macros that pass it on.
//
// Three kinds of error live in this code. The world misbehaves (bad file, lost peer, full pool): a Status
// with the entity and its numbers, callers decide. We misbehave: CHECK in check.h. A device misbehaves: one
// Status at the shell, then the worker leaves.
//
//   if (free < need) return ResourceExhaustedError("kv: need {} blocks, {} free, seq {}", need, free, seq);
//   ASSIGN_OR_RETURN(int fd, OpenReadOnly(path));
//   RETURN_IF_ERROR(CheckLength(fd));
//
// (The makers exist because Debian's absl::string_view is not std::string_view, which keeps absl::StrCat
// away.)
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

using absl::Status;
using absl::StatusOr;

inline Status OkStatus() { return absl::OkStatus(); }

inline std::string_view Message(const Status& status) {
  return {status.message().data(), status.message().size()};
}

inline Status MakeStatus(absl::StatusCode code, std::string_view message) {
  return Status(code, absl::string_view(message.data(), message.size()));
}

#define PACELINE_STATUS_MAKER(Name, Code)                                      \
  template <typename... Args>                                                  \
  Status Name(fmt::format_string<Args...> format, Args&&... args) {            \
    return MakeStatus(Code, fmt::format(format, std::forward<Args>(args)...)); \
  }
PACELINE_STATUS_MAKER(InvalidArgumentError, absl::StatusCode::kInvalidArgument)
PACELINE_STATUS_MAKER(NotFoundError, absl::StatusCode::kNotFound)
PACELINE_STATUS_MAKER(ResourceExhaustedError, absl::StatusCode::kResourceExhausted)
PACELINE_STATUS_MAKER(FailedPreconditionError, absl::StatusCode::kFailedPrecondition)
PACELINE_STATUS_MAKER(UnavailableError, absl::StatusCode::kUnavailable)
PACELINE_STATUS_MAKER(DeadlineExceededError, absl::StatusCode::kDeadlineExceeded)
PACELINE_STATUS_MAKER(UnimplementedError, absl::StatusCode::kUnimplemented)
PACELINE_STATUS_MAKER(InternalError, absl::StatusCode::kInternal)
PACELINE_STATUS_MAKER(DataLossError, absl::StatusCode::kDataLoss)
PACELINE_STATUS_MAKER(CancelledError, absl::StatusCode::kCancelled)
#undef PACELINE_STATUS_MAKER

// The same code with `context` in front of the message: "stage 1: file is 12 bytes short".
inline Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  return MakeStatus(status.code(), fmt::format("{}: {}", context, Message(status)));
}

}  // namespace paceline

#define RETURN_IF_ERROR(expr)                                                 \
  do {                                                                        \
    if (absl::Status status_macro_value = (expr); !status_macro_value.ok()) { \
      return status_macro_value;                                              \
    }                                                                         \
  } while (false)

#define PACELINE_CONCAT_INNER(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_INNER(a, b)

#define ASSIGN_OR_RETURN(lhs, expr) \
  PACELINE_ASSIGN_OR_RETURN(PACELINE_CONCAT(status_or_, __LINE__), lhs, expr)

#define PACELINE_ASSIGN_OR_RETURN(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return std::move(tmp).status();  \
  lhs = std::move(tmp).value()
