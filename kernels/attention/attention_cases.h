// Shapes of attention that test and benchmark share.
#pragma once

#include <array>
#include <cstddef>

#include "common/tensor/dtype.h"

namespace paceline::kernels {

struct AttentionShape {
  const char* name;
  size_t num_heads;
  size_t num_kv_heads;
  size_t head_dim;
  DType dtype;
};

// Real ones first, then head counts around the block of 4 and head sizes around the 16 lanes.
inline constexpr std::array<AttentionShape, 8> kAttentionShapes = {{
    {"smollm2_135m", 9, 3, 64, DType::kF16},
    {"llama3_1b", 32, 8, 64, DType::kF16},
    {"tinyllama", 32, 4, 64, DType::kF32},
    {"one_head", 1, 1, 16, DType::kF32},
    {"multi_head", 4, 4, 32, DType::kF16},
    {"five_to_one", 5, 1, 17, DType::kF16},
    {"seven_to_one", 14, 2, 15, DType::kF32},
    {"tiny_heads", 2, 1, 3, DType::kF16},
}};

// Path lengths around the chunk of 64.
inline constexpr std::array<size_t, 7> kPathLengths = {1, 2, 17, 63, 64, 65, 200};

}  // namespace paceline::kernels
