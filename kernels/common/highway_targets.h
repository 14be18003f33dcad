// Which Highway targets the kernels are compiled for. Include before anything of Highway.
//
// Scalable vectors (SVE, RVV) cannot be array elements, which the 16 virtual lanes need; SSSE3 machines
// without SSE4.2 are gone and take the scalar code. What stays on x86: SCALAR, SSE4, AVX2, AVX3 (AVX-512
// F/BW/DQ/VL).
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

#include "hwy/targets.h"
