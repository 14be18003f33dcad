// The slow truth of attention.h, in double: one softmax over the whole path.
#pragma once

#include <vector>

#include "kernels/attention/attention.h"

namespace paceline::kernels {

struct AttentionReference {
  std::vector<double> out;              // [rows, num_heads, head_dim]
  std::vector<double> magnitude;        // same shape: sum of softmax(score)_i * |v_i|
  std::vector<double> score_magnitude;  // [rows, num_heads] greatest |scale| * sum |q| |k| over the path
};

AttentionReference AttentionRef(const AttentionArgs& args);

}  // namespace paceline::kernels
