#pragma once

#include <ATen/core/Tensor.h>

#include "troupe/engine/fused/activation_kind.hpp"

namespace troupe::fused {

// Without an autograd graph. On CPUs with AVX2 or AVX-512, for fp32 and bf16,
// by kernels that compute in fp32; else by LibTorch's operators. Results are
// contiguous, of x's shape and dtype. Any thread.

/// Whether it is by kernels; with a factor or gradient.
bool has_activation_kernel(const at::Tensor& x);
bool has_activation_kernel(const at::Tensor& x, const at::Tensor& other);

at::Tensor activate(const at::Tensor& x, activation which);
at::Tensor activate_backward(const at::Tensor& gradient, const at::Tensor& x,
                             activation which);

/// activate(x) * factor, of the same shape.
at::Tensor activate_gated(const at::Tensor& x, const at::Tensor& factor,
                          activation which);

struct gated_gradients {
  at::Tensor x, factor;
};

gated_gradients activate_gated_backward(const at::Tensor& gradient,
                                        const at::Tensor& x,
                                        const at::Tensor& factor,
                                        activation which);

}  // namespace troupe::fused
