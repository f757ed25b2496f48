#pragma once

#include <ATen/core/Tensor.h>

#include "troupe/engine/fused/activation_kind.hpp"

namespace troupe::fused {

/// The activation of each element, as LibTorch's gelu and silu. On CPUs with
/// AVX2 or AVX-512, for fp32 and bf16, by a kernel of troupe's, which computes
/// in fp32, within a few units of the last place also where the result is
/// near 0. The gradient has no gradient. Any shape and thread.
at::Tensor activated(const at::Tensor& x, activation which);

/// activated(x) * factor, of the same shape, in one pass, as in gated layers
/// such as SwiGLU (Shazeer, 2020): nothing but the two is kept for the
/// backward.
at::Tensor gated(const at::Tensor& x, const at::Tensor& factor,
                 activation which);

}  // namespace troupe::fused
