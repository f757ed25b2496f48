#pragma once

#include <ATen/Context.h>

#include <memory>

#include "../../engine/cuda/gpu/gpu.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"

namespace troupe::testing {

/// The first GPU, for trainings; the test is skipped where there is none. To
/// be called first.
inline std::shared_ptr<accelerator> one_gpu() {
  return first_gpu();
}

/// While it lives, LibTorch's operators give equal bits from run to run, or
/// refuse: attention's backward adds in no fixed order otherwise. Memory that
/// they allocate is filled with nan meanwhile. To be made before the first
/// matrix product.
class equal_bits {
 public:
  equal_bits() {
    use_deterministic_operators();
    at::globalContext().setDeterministicFillUninitializedMemory(true);
  }
  ~equal_bits() {
    at::globalContext().setDeterministicAlgorithms(false, false);
  }
  equal_bits(const equal_bits&) = delete;
  equal_bits& operator=(const equal_bits&) = delete;
};

}  // namespace troupe::testing
