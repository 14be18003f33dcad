#include "kernels/attention/attention_ref.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace paceline::kernels {
namespace {

float LoadElement(DType dtype, const std::byte* base, size_t index) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, base + index * sizeof(value), sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, base + index * sizeof(bits), sizeof(bits));
  return HalfToFloat(bits);
}

// First element of a K/V head's vector at path entry i.
size_t ElementIndex(const AttentionRow& row, const KvView& kv, size_t entry, size_t kv_head) {
  const size_t slot = entry < row.prefix_len ? entry : row.tail_slots[entry - row.prefix_len];
  const size_t place = size_t{row.blocks[slot / kv.block_size]} * kv.block_size + slot % kv.block_size;
  return (place * kv.num_kv_heads + kv_head) * kv.head_dim;
}

}  // namespace

AttentionReference AttentionRef(const AttentionArgs& args) {
  const KvView& kv = args.kv;
  AttentionReference result;
  for (size_t r = 0; r < args.rows.size(); ++r) {
    const AttentionRow& row = args.rows[r];
    const size_t path = row.prefix_len + row.tail_slots.size();
    for (size_t h = 0; h < args.num_heads; ++h) {
      const float* q = args.q + r * args.q_stride + h * kv.head_dim;
      const size_t kv_head = h / (args.num_heads / kv.num_kv_heads);
      std::vector<double> scores(path);
      double greatest = -std::numeric_limits<double>::infinity();
      double score_magnitude = 0;
      for (size_t i = 0; i < path; ++i) {
        const size_t at = ElementIndex(row, kv, i, kv_head);
        double magnitude = 0;
        for (size_t d = 0; d < kv.head_dim; ++d) {
          const double product = static_cast<double>(q[d]) * LoadElement(kv.dtype, kv.k, at + d);
          scores[i] += product * args.scale;
          magnitude += std::abs(product * args.scale);
        }
        greatest = std::max(greatest, scores[i]);
        score_magnitude = std::max(score_magnitude, magnitude);
      }
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score - greatest);
      for (size_t d = 0; d < kv.head_dim; ++d) {
        double out = 0;
        double magnitude = 0;
        for (size_t i = 0; i < path; ++i) {
          const double term =
              scores[i] / sum * LoadElement(kv.dtype, kv.v, ElementIndex(row, kv, i, kv_head) + d);
          out += term;
          magnitude += std::abs(term);
        }
        result.out.push_back(out);
        result.magnitude.push_back(magnitude);
      }
      result.score_magnitude.push_back(score_magnitude);
    }
  }
  return result;
}

}  // namespace paceline::kernels
