#pragma once

namespace troupe {

/// Defines the operators that engine/fused/gpu_functions.hpp calls, for GPUs,
/// in LibTorch's dispatcher: gated activations and rotations. Does nothing from
/// the second call on. Any thread.
void register_layer_operators();

}  // namespace troupe
