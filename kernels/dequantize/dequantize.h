// Weights of any stored type as float32: the one definition of what a quantised byte means.
//
// Formula: per type in the .cc, element by element, after the block layouts of the GGUF format (ggml
// block_q4_0 and its kin). All arithmetic is single float32 operations in a fixed order, so the result has
// the same bits on every machine; F16 and BF16 are exact.
//
// Shapes: in [RowBytes(dtype, elements)] bytes, any alignment; out [elements] f32. They may not overlap.
// Deterministic; no allocation; any thread.
//
//   RETURN_IF_ERROR(kernels::DequantizeRow(DType::kQ4_1, row, values.data(), 576));
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"
#include "common/tensor/dtype.h"

namespace paceline::kernels {

// InvalidArgument when `elements` is not whole blocks or the type is not a weight type (integers, F64).
Status DequantizeRow(DType dtype, const std::byte* in, float* out, uint64_t elements);

// Whether DequantizeRow reads the type.
bool CanDequantize(DType dtype);

}  // namespace paceline::kernels
