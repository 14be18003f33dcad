// The sum under a softmax over a vocabulary, the same bits on every machine.
//
// sum_i exp(z_i - z_max) in a fixed order: element i goes to lane i % 16, float polynomial exp (relative
// error below 2e-7), double accumulators, the lanes added from first to last. Plain loops that compilers
// vectorise; pure, any thread.
#pragma once

#include <span>

namespace paceline {

// `max` is the largest of `values`; -inf values add 0. No NaN, no +inf. Empty: 0.
double SoftmaxSum(std::span<const float> values, float max);

}  // namespace paceline
