#include "troupe/engine/device/x86/kernels.hpp"

namespace troupe {

/// On Intel's processors MKL's own kernels use AVX-512.
const small_product_kernels* small_products() {
  const bool runs =
    !__builtin_cpu_is("intel") && __builtin_cpu_supports("fma")
    && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
    && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return runs ? &avx512_products : nullptr;
}

}  // namespace troupe
