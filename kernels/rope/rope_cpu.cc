#include "common/base/check.h"
#include "common/base/portable_math.h"
#include "kernels/rope/rope.h"

namespace paceline::kernels {
namespace {

// Plain loops: the compiler vectorises them for the baseline, each element rounds on its own, and a row's
// rope costs a thousandth of its matrix products.
void TurnHalves(float* head, const float* cos, const float* sin, size_t pairs) {
  for (size_t i = 0; i < pairs; ++i) {
    const float a = head[i];
    const float b = head[i + pairs];
    head[i] = a * cos[i] - b * sin[i];
    head[i + pairs] = b * cos[i] + a * sin[i];
  }
}

void TurnInterleaved(float* head, const float* cos, const float* sin, size_t pairs) {
  for (size_t i = 0; i < pairs; ++i) {
    const float a = head[2 * i];
    const float b = head[2 * i + 1];
    head[2 * i] = a * cos[i] - b * sin[i];
    head[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}

}  // namespace

RopeTable::RopeTable(std::span<const double> inv_freq, double attention_scaling)
    : inv_freq_(inv_freq.begin(), inv_freq.end()), attention_scaling_(attention_scaling) {}

void RopeTable::Prepare(size_t num_positions) {
  if (num_positions <= num_positions_) return;
  cos_.resize(num_positions * num_pairs());
  sin_.resize(num_positions * num_pairs());
  for (size_t pos = num_positions_; pos < num_positions; ++pos) {
    for (size_t i = 0; i < num_pairs(); ++i) {
      const double angle = static_cast<double>(pos) * inv_freq_[i];
      cos_[pos * num_pairs() + i] = static_cast<float>(PortableCos(angle) * attention_scaling_);
      sin_[pos * num_pairs() + i] = static_cast<float>(PortableSin(angle) * attention_scaling_);
    }
  }
  num_positions_ = num_positions;
}

void ApplyRope(const RopeArgs& args, const RopeTable& table, RopeLayout layout) {
  const size_t pairs = table.num_pairs();
  CHECK_LE(2 * pairs, args.head_dim) << "rope turns more elements than a head has";
  for (size_t r = 0; r < args.positions.size(); ++r) {
    const size_t pos = args.positions[r];
    CHECK_LT(pos, table.num_positions()) << "rope table not prepared for this position";
    for (size_t h = 0; h < args.num_heads; ++h) {
      float* head = args.x + r * args.row_stride + h * args.head_dim;
      if (layout == RopeLayout::kHalves) {
        TurnHalves(head, table.Cos(pos), table.Sin(pos), pairs);
      } else {
        TurnInterleaved(head, table.Cos(pos), table.Sin(pos), pairs);
      }
    }
  }
}

}  // namespace paceline::kernels
