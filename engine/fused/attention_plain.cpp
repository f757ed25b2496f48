#include "troupe/engine/fused/attention_code.hpp"

namespace troupe::fused {

const attention_kernels plain_attention = attention_code<16>::kernels("plain");

}  // namespace troupe::fused
