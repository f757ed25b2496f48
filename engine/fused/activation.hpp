#pragma once

#include <ATen/core/Tensor.h>

#include "troupe/engine/fused/activation_kind.hpp"

namespace troupe::fused {

/// The activation of each element, as LibTorch's gelu and silu. For fp32 on
/// CPUs with AVX2 or AVX-512, and with the latter also for bf16, by a kernel of
/// troupe's, which computes in fp32, also where the result is near 0 within
/// some units of the last place. GELU's value of more than 2^14 elements, its
/// gradient of these in bf16, SiLU of less than 2^12, and everything else is by
/// LibTorch's functions. The choice depends on the processor, the shape and the
/// dtype alone. The gradient of a kernel has no gradient. Any thread.
at::Tensor activated(const at::Tensor& x, activation which);

/// activated(x) * factor, of the same shape, in one pass, as in gated layers
/// such as SwiGLU (Shazeer, 2020): only the two are kept for the backward. On
/// GPUs by a kernel, too, for tensors of fp32, bf16 or fp16 without gaps.
at::Tensor gated(const at::Tensor& x, const at::Tensor& factor,
                 activation which);

}  // namespace troupe::fused
