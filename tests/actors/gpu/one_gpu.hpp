#pragma once

#include <ATen/Context.h>

#include <memory>

#include "../../engine/cuda/gpu/gpu.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"

namespace troupe::testing {

/// The first GPU, for trainings; skips the test without a GPU. To be called
/// first.
inline std::shared_ptr<accelerator> one_gpu() {
  return first_gpu();
}

/// During its lifetime, LibTorch's operators give equal bits in every run, or
/// refuse; otherwise attention's backward adds in no fixed order. Memory that
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
