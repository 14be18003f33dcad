// Instruction sets that Highway 1.0.3 does not dispatch on, behind our own check.
//
// Threading: the test switches are for single-threaded test set-up only.
#pragma once

#include <cstdint>

namespace paceline::kernels {

// The Highway target (HWY_AVX2, ...) that its dispatch runs now.
int64_t ChosenTarget();

// AVX-512 VNNI is there, the operating system saves its state, and nothing masks it (Highway's AVX3 target
// disabled, or the switch below).
bool UseAvx512Vnni();

// Hides VNNI, so that a machine that has it can test and measure what others run.
void MaskAvx512VnniForTest(bool masked);

}  // namespace paceline::kernels
