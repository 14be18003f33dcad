// Checked arithmetic for sizes that come from outside (files, sockets, requests).
//
//   ASSIGN_OR_RETURN(uint64_t bytes, CheckedMul(rows, row_bytes));
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace paceline {

inline StatusOr<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) {
    return InvalidArgumentError("size overflow: {} * {}", a, b);
  }
  return out;
}

inline StatusOr<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) {
    return InvalidArgumentError("size overflow: {} + {}", a, b);
  }
  return out;
}

}  // namespace paceline
