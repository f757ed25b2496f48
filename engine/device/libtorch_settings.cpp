#include "troupe/engine/device/libtorch_settings.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdlib>

namespace troupe {

void set_intra_op_threads(int count) {
  at::set_num_threads(count);
}

void use_deterministic_operators() {
  // cuBLAS reads it when its first handle is made.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace troupe
