#include "troupe/engine/device/small_product_kernels.hpp"

namespace troupe {

const small_product_kernels* small_products() {
  return nullptr;
}

}  // namespace troupe
