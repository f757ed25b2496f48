#include "troupe/engine/fused/layer_code.hpp"
#include "troupe/engine/fused/x86/kernels.hpp"

namespace troupe::fused {

constinit const layer_kernels avx2_layers = layer_kernels_of<32>("avx2");

}  // namespace troupe::fused
