// Token embedding: out[r, :] = table[ids[r], :] widened to float32.
//
// The table has the dtype of the file (any type that kernels/dequantize knows); one row is dequantised per
// id. Every id must be < table.rows (CHECK: ids are validated where they enter). Any thread.
//
//   EmbeddingGather({DType::kQ4_1, data, 49152, 576}, ids, out, /*out_stride=*/576);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/matmul/matmul.h"

namespace paceline::kernels {

void EmbeddingGather(const WeightMatrix& table, std::span<const uint32_t> ids, float* out, size_t out_stride);

}  // namespace paceline::kernels
