#pragma once

#include <cfenv>

namespace troupe {

/// Sets LibTorch's number of intra-op threads, for the calling thread and for
/// all threads that have not used LibTorch yet. Parameter gradients depend on
/// it in the last bits, so a run sets it once, before its threads start; every
/// worker calls this again first.
void set_intra_op_threads(int count);

/// Throws `invalid_argument` for a number below 1.
void require_legal_threads(int intra_op_threads);

/// Sets up the calling thread as one that computes: its number of intra-op
/// threads as above, and subnormal numbers (below 1.2e-38 in fp32) are read and
/// written as 0, in the thread and in those that it starts. Optimizers' moments
/// of rows that are no longer used would turn subnormal after some hundreds of
/// steps, where arithmetic takes up to 100 times as long on some processors.
void prepare_compute_thread(int intra_op_threads);

/// While it lives, the calling thread is one that computes; then it has its
/// settings back, and so have the threads that have not used LibTorch yet.
class compute_scope {
 public:
  explicit compute_scope(int intra_op_threads);
  ~compute_scope();
  compute_scope(const compute_scope&) = delete;
  compute_scope& operator=(const compute_scope&) = delete;

 private:
  int threads_;
  std::fenv_t arithmetic_{};
};

/// Makes LibTorch's operators add in a fixed order on devices too, in the whole
/// process; those that can't then throw `c10::Error`. Training then gives equal
/// bits from run to run. Slower, attention's backward most of all. Sets
/// CUBLAS_WORKSPACE_CONFIG unless it is set. Call it before a device is opened,
/// and before other threads read the environment.
void use_deterministic_operators();

}  // namespace troupe
