#include "troupe/engine/device/instruction_set.hpp"
#include "troupe/engine/device/x86/kernels.hpp"

namespace troupe {

/// MKL uses AVX-512 on Intel's processors, and AVX2 on all, where it leaves
/// little to gain.
const small_product_kernels* small_products() {
  const bool runs = !__builtin_cpu_is("intel")
                    && usable_instructions() == instruction_set::avx512;
  return runs ? &avx512_products : nullptr;
}

}  // namespace troupe
