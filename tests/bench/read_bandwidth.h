// What this machine can read, so that a benchmark can print its share of it.
#pragma once

#include <cstddef>

#include "kernels/common/thread_pool.h"

namespace paceline::bench {

// Best of a few passes over a buffer of `bytes`, split over the pool's threads. Bytes per second.
double MeasureReadBandwidth(size_t bytes, kernels::ThreadPool& pool);

}  // namespace paceline::bench
