#include "troupe/engine/fused/attention_kernels.hpp"

namespace troupe::fused {

std::vector<const attention_kernels*> usable_attention() {
  return {&plain_attention};
}

}  // namespace troupe::fused
