#include "common/base/check.h"
#include "kernels/dequantize/dequantize.h"
#include "kernels/embedding/embedding.h"

namespace paceline::kernels {

void EmbeddingGather(const WeightMatrix& table, std::span<const uint32_t> ids, float* out,
                     size_t out_stride) {
  if (ids.empty()) return;
  const StatusOr<uint64_t> row_bytes = RowBytes(table.dtype, table.cols);
  CHECK(row_bytes.ok()) << Message(row_bytes.status());
  for (size_t r = 0; r < ids.size(); ++r) {
    CHECK_LT(ids[r], table.rows) << "token id outside the embedding table";
    const Status status =
        DequantizeRow(table.dtype, table.data + ids[r] * *row_bytes, out + r * out_stride, table.cols);
    CHECK(status.ok()) << Message(status);
  }
}

}  // namespace paceline::kernels
