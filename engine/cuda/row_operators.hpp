#pragma once

namespace troupe {

/// Defines the operators that engine/fused/gpu_functions.hpp calls, for GPUs,
/// in LibTorch's dispatcher: norms and sums of columns. Does nothing from the
/// second call on. Any thread.
void register_row_operators();

}  // namespace troupe
