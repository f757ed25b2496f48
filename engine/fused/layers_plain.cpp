#include "troupe/engine/fused/layer_code.hpp"

namespace troupe::fused {

constinit const layer_kernels plain_layers = layer_kernels_of<16>("plain");

}  // namespace troupe::fused
