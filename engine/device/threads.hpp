#pragma once

namespace troupe {

/// Number of intra-op threads of LibTorch for the calling thread. The setting
/// does not reach threads that start later: every worker calls this first.
/// Parameter gradients depend on it in the last bits.
void set_intra_op_threads(int count);

}  // namespace troupe
