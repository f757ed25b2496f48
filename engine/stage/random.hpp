#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

// Random numbers of a forward are values of the op, not the state of a process:
// a function of the seed, the step, the microbatch, the slice, the layer and
// the number of the draw within the layer. So they are the same under every
// schedule, split, order of execution, number of processes and layout of the
// same microbatches over replicas, in a second forward (recompute), in the
// plain loop, and after a run is resumed. The model is JAX's partitionable
// threefry.

/// Sets each element of x to 0 with probability p and multiplies the others by
/// 1 / (1 - p), in a forward of training; else returns x. Call it in the
/// `forward` of a stage_module, the same number of times whatever the values
/// are. The mask is the same on CPUs and on GPUs, for any strides, and in steps
/// that are launched as graphs. Throws `invalid_argument` unless 0 <= p <= 1.
at::Tensor dropout(const at::Tensor& x, double p);

/// Makes a CPU generator of the op's own for other draws in a forward of
/// training, another one at each call (`at::rand(sizes, op_generator())`).
/// Throws `invalid_argument` elsewhere, and in a step that is recorded as a
/// graph, which would repeat the numbers.
at::Generator op_generator();

/// Makes a CPU generator that depends on these numbers alone. A data source
/// with it gives the same microbatches whichever thread makes them, and when.
at::Generator generator_at(std::uint64_t seed, std::int64_t index);

}  // namespace troupe
