#pragma once

namespace troupe {

/// From now on LibTorch's operators add in a fixed order on devices too, in the
/// whole process, and those that can't throw `c10::Error`: trainings give equal
/// bits from run to run. Slower; attention's backward most of all. Sets
/// CUBLAS_WORKSPACE_CONFIG unless it is set. To be called before a device is
/// opened, and before other threads read the environment.
void use_deterministic_operators();

}  // namespace troupe
