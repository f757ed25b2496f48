#pragma once

#include "troupe/engine/fused/attention_kernels.hpp"
#include "troupe/engine/fused/layer_kernels.hpp"

namespace troupe::fused {

extern const attention_kernels avx2_attention;
extern const attention_kernels avx512_attention;
extern const layer_kernels avx2_layers;
extern const layer_kernels avx512_layers;

}  // namespace troupe::fused
