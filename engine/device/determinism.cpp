#include "troupe/engine/device/determinism.hpp"

#include <ATen/Context.h>

#include <cstdlib>

namespace troupe {

void use_deterministic_operators() {
  // cuBLAS reads it when its first handle is made.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace troupe
