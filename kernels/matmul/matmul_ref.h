// The slow truth of matmul.h, in double, with what a test needs to derive its tolerance.
#pragma once

#include <vector>

#include "kernels/matmul/matmul.h"

namespace paceline::kernels {

// What the activations are before the product: as given, or rounded to int8 runs as matmul.h says.
enum class ReferenceActivations { kExact, kInt8 };

struct MatmulReference {
  std::vector<double> y;  // [num_rows, w.rows]
  std::vector<double>
      magnitude;  // [num_rows, w.rows] sum over k of |x| |w| terms as the kernel adds them, + |bias|
};

MatmulReference MatmulRef(const MatmulArgs& args, ReferenceActivations activations);

}  // namespace paceline::kernels
