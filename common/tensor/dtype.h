// Element types of weights and activations, with the block geometry of the GGUF quantised ones.
//
// A row of a quantised tensor is a run of whole blocks: RowBytes(kQ4_1, 576) = 576 / 32 * 20.
// Sources: safetensors dtype names; ggml block layouts (block elements and bytes as in the GGUF v3 format).
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/status.h"

namespace paceline {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kBool,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
};
inline constexpr int kNumDTypes = static_cast<int>(DType::kMXFP4) + 1;

struct DTypeInfo {
  std::string_view name;    // "F16", "Q4_1"
  uint32_t block_elements;  // elements that share a block, 1 for plain types
  uint32_t block_bytes;
};

const DTypeInfo& Info(DType dtype);
inline std::string_view Name(DType dtype) { return Info(dtype).name; }
inline bool IsQuantized(DType dtype) { return Info(dtype).block_elements > 1; }
// F32, F16, BF16.
bool IsFloat(DType dtype);

// Bytes of one row of `elements`; InvalidArgument when the row is not whole blocks or the size overflows.
StatusOr<uint64_t> RowBytes(DType dtype, uint64_t elements);

// IEEE half and bfloat16 to float32 and back (round to nearest even; overflow becomes infinity).
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
float BFloat16ToFloat(uint16_t bits);
uint16_t FloatToBFloat16(float value);

}  // namespace paceline
