#include "troupe/engine/fused/layer_code.hpp"
#include "troupe/engine/fused/x86/kernels.hpp"

namespace troupe::fused {

constinit const layer_kernels avx512_layers = layer_kernels_of<64>("avx512");

}  // namespace troupe::fused
