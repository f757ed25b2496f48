#include "troupe/engine/fused/x86/kernels.hpp"

namespace troupe::fused {

std::vector<const attention_kernels*> usable_attention() {
  std::vector<const attention_kernels*> usable{&plain_attention};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    usable.push_back(&avx2_attention);
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f")
      && __builtin_cpu_supports("avx512bw")
      && __builtin_cpu_supports("avx512dq")
      && __builtin_cpu_supports("avx512vl"))
    usable.push_back(&avx512_attention);
  return usable;
}

}  // namespace troupe::fused
