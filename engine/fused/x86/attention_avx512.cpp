#include "troupe/engine/fused/attention_code.hpp"
#include "troupe/engine/fused/x86/kernels.hpp"

namespace troupe::fused {

const attention_kernels avx512_attention =
  attention_code<64>::kernels("avx512");

}  // namespace troupe::fused
