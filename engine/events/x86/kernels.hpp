#pragma once

#include "troupe/engine/events/statistics_kernels.hpp"

namespace troupe {

extern const statistics_kernels avx2_kernels;
extern const statistics_kernels avx512_kernels;

}  // namespace troupe
