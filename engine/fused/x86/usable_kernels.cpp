#include "troupe/engine/fused/x86/kernels.hpp"

namespace troupe::fused {

namespace {

template <class Kernels>
std::vector<const Kernels*> usable(const Kernels& plain, const Kernels& avx2,
                                   const Kernels& avx512) {
  std::vector all{&plain};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    all.push_back(&avx2);
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f")
      && __builtin_cpu_supports("avx512bw")
      && __builtin_cpu_supports("avx512dq")
      && __builtin_cpu_supports("avx512vl"))
    all.push_back(&avx512);
  return all;
}

}  // namespace

std::vector<const attention_kernels*> usable_attention() {
  return usable(plain_attention, avx2_attention, avx512_attention);
}

std::vector<const layer_kernels*> usable_layers() {
  return usable(plain_layers, avx2_layers, avx512_layers);
}

}  // namespace troupe::fused
