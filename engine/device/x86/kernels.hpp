#pragma once

#include "troupe/engine/device/small_product_kernels.hpp"

namespace troupe {

extern const small_product_kernels avx512_products;

}  // namespace troupe
