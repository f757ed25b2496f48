#include "troupe/engine/device/small_product_code.hpp"
#include "troupe/engine/device/x86/kernels.hpp"

namespace troupe {

const small_product_kernels avx512_products = small_product_code<64>::kernels();

}  // namespace troupe
