#pragma once

#include "troupe/engine/fused/attention_kernels.hpp"

namespace troupe::fused {

extern const attention_kernels avx2_attention;
extern const attention_kernels avx512_attention;

}  // namespace troupe::fused
