// Errors of the outside world: absl::Status and the two macros that pass it on.
//
// Three kinds of error live in this code. The world misbehaves (bad file, lost peer, full pool): a Status with
// the entity and its numbers, callers decide. We misbehave: CHECK in check.h. A device misbehaves: one Status at
// the shell, then the worker leaves.
//
//   absl::StatusOr<Mapping> Open(std::string_view path) {
//     ASSIGN_OR_RETURN(int fd, OpenReadOnly(path));
//     RETURN_IF_ERROR(CheckLength(fd));
//     ...
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace paceline {

using absl::Status;
using absl::StatusOr;

// The same code with `context` in front of the message: "stage 1: file is 12 bytes short".
inline Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  return Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace paceline

#define RETURN_IF_ERROR(expr)                               \
  do {                                                      \
    if (absl::Status status_macro_value = (expr); !status_macro_value.ok()) { \
      return status_macro_value;                            \
    }                                                       \
  } while (false)

#define PACELINE_CONCAT_INNER(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_INNER(a, b)

#define ASSIGN_OR_RETURN(lhs, expr) \
  PACELINE_ASSIGN_OR_RETURN(PACELINE_CONCAT(status_or_, __LINE__), lhs, expr)

#define PACELINE_ASSIGN_OR_RETURN(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return std::move(tmp).status();  \
  lhs = std::move(tmp).value()
