#include "troupe/engine/device/libtorch_settings.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdlib>

#include "troupe/base/fail.hpp"

namespace troupe {

void set_intra_op_threads(int count) {
  // A thread's first use takes the number of the process. That is now, not
  // after this, when another thread may have set it.
  at::get_num_threads();
  at::set_num_threads(count);
}

void require_legal_threads(int intra_op_threads) {
  constexpr int most = 1024;
  if (intra_op_threads < 1 || intra_op_threads > most)
    fail(error_code::invalid_argument,
         "intra_op_threads is {}; use 1 to {} threads", intra_op_threads, most);
}

void prepare_compute_thread(int intra_op_threads) {
  set_intra_op_threads(intra_op_threads);
  at::globalContext().setFlushDenormal(true);  // of this thread
}

compute_scope::compute_scope(int intra_op_threads)
  : threads_(at::get_num_threads()) {
  require_legal_threads(intra_op_threads);
  std::fegetenv(&arithmetic_);
  prepare_compute_thread(intra_op_threads);
}

compute_scope::~compute_scope() {
  std::fesetenv(&arithmetic_);
  at::set_num_threads(threads_);
}

void use_deterministic_operators() {
  // cuBLAS reads it when its first handle is made.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace troupe
