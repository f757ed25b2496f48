#include "troupe/engine/fused/attention_code.hpp"
#include "troupe/engine/fused/x86/kernels.hpp"

namespace troupe::fused {

const attention_kernels avx2_attention = attention_code<32>::kernels("avx2");

}  // namespace troupe::fused
