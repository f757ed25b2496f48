#pragma once

namespace troupe {

/// Makes LibTorch's operators add in a fixed order on devices too, in the whole
/// process; those that can't then throw `c10::Error`. Training then gives equal
/// bits from run to run. Slower, attention's backward most of all. Sets
/// CUBLAS_WORKSPACE_CONFIG unless it is set. Call it before a device is opened,
/// and before other threads read the environment.
void use_deterministic_operators();

}  // namespace troupe
