#pragma once

namespace troupe {

/// Sets LibTorch's number of intra-op threads: for the calling thread, for
/// threads that have not used LibTorch yet, and, within MKL, for all. Parameter
/// gradients depend on it in the last bits, so a run sets it once, before its
/// threads start; every worker calls this again first.
void set_intra_op_threads(int count);

}  // namespace troupe
