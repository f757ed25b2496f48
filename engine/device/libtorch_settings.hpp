#pragma once

namespace troupe {

/// Sets LibTorch's number of intra-op threads, for the calling thread and for
/// all threads that have not used LibTorch yet. Parameter gradients depend on
/// it in the last bits, so a run sets it once, before its threads start; every
/// worker calls this again first.
void set_intra_op_threads(int count);

/// Makes LibTorch's operators add in a fixed order on devices too, in the whole
/// process; those that can't then throw `c10::Error`. Training then gives equal
/// bits from run to run. Slower, attention's backward most of all. Sets
/// CUBLAS_WORKSPACE_CONFIG unless it is set. Call it before a device is opened,
/// and before other threads read the environment.
void use_deterministic_operators();

}  // namespace troupe
