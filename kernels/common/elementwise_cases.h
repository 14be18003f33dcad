// Row widths that the tests and the benchmark of the row-wise operations share (rmsnorm, swiglu, add,
// argmax).
#pragma once

#include <array>
#include <cstddef>

namespace paceline::kernels {

// Around every vector width up to the 16 virtual lanes.
inline constexpr std::array<size_t, 14> kWidthRemainders = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100};
// SmolLM2-135M: hidden, MLP, vocabulary.
inline constexpr std::array<size_t, 3> kWidthsReal = {576, 1536, 49152};

}  // namespace paceline::kernels
