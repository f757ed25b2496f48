#include "troupe/engine/fused/attention_kernels.hpp"
#include "troupe/engine/fused/layer_kernels.hpp"

namespace troupe::fused {

std::vector<const attention_kernels*> usable_attention() {
  return {&plain_attention};
}

std::vector<const layer_kernels*> usable_layers() {
  return {&plain_layers};
}

}  // namespace troupe::fused
