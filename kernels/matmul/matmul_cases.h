// Shapes and types of matmul that test and benchmark share.
#pragma once

#include <array>
#include <cstddef>

#include "common/tensor/dtype.h"

namespace paceline::kernels {

struct MatmulShape {
  const char* name;
  size_t outputs;
  size_t inputs;
  size_t per_token;  // how often a token meets it
};

// SmolLM2-135M: hidden 576, MLP 1536, 3 K/V heads of 64, 30 layers, tied head of 49152.
inline constexpr std::array<MatmulShape, 5> kSmolLm2Shapes = {{
    {"q_or_o", 576, 576, 60},
    {"k_or_v", 192, 576, 60},
    {"gate_or_up", 1536, 576, 60},
    {"down", 576, 1536, 30},
    {"head", 49152, 576, 1},
}};

// Types with a path of their own, and two that go through float32.
inline constexpr std::array<DType, 8> kMatmulTypes = {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kF16,
                                                      DType::kBF16, DType::kF32,  DType::kQ5_1, DType::kQ6_K};

// Outputs around the tile of 16 and its narrower vectors.
inline constexpr std::array<size_t, 9> kOutputRemainders = {1, 3, 4, 5, 8, 15, 16, 17, 35};
// Rows around the float block of 4 and the row tile of 64.
inline constexpr std::array<size_t, 9> kRowRemainders = {1, 2, 3, 4, 5, 8, 17, 64, 66};
// Inputs of plain types, around the 16 lanes (quantised ones are whole blocks).
inline constexpr std::array<size_t, 9> kPlainInputs = {1, 3, 4, 15, 16, 17, 31, 64, 100};

}  // namespace paceline::kernels
