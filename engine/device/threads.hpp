#pragma once

namespace troupe {

/// Sets LibTorch's number of intra-op threads for the calling thread. The
/// setting does not affect threads that start later: every worker calls this
/// first. Parameter gradients depend on it in the last bits.
void set_intra_op_threads(int count);

}  // namespace troupe
