#pragma once

#include <vector>

#include "troupe/engine/fused/layer_kernels.hpp"

namespace troupe::testing {

/// Makes kernels those of this process while it lives; null: LibTorch's.
class layer_kernels_scope {
 public:
  explicit layer_kernels_scope(const fused::layer_kernels* kernels)
    : before_(fused::chosen_layers()) {
    fused::use_layers(kernels);
  }
  ~layer_kernels_scope() { fused::use_layers(before_); }
  layer_kernels_scope(const layer_kernels_scope&) = delete;
  layer_kernels_scope& operator=(const layer_kernels_scope&) = delete;

 private:
  const fused::layer_kernels* before_;
};

/// All that this machine runs, and LibTorch's operators.
inline std::vector<const fused::layer_kernels*> all_layer_kernels() {
  auto all = fused::usable_layers();
  all.push_back(nullptr);
  return all;
}

}  // namespace troupe::testing
