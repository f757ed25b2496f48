#pragma once

#include <ATen/core/Tensor.h>

#include "troupe/engine/fused/activation_kind.hpp"

namespace troupe::fused {

// Without an autograd graph. By kernels that compute in fp32 on CPUs with
// AVX-512, for fp32 and bf16, and with AVX2, for fp32; gated ones on GPUs, too,
// for fp32, bf16 and fp16 without gaps; else by LibTorch's
// operators, and so are GELU of more than 2^14 elements, for which these call
// oneDNN, its gradient in bf16, and SiLU of less than 2^12. Results are
// contiguous, of x's shape and dtype. Any thread.

/// Whether a kernel computes it, or at least the gradient.
bool has_activation_kernel(const at::Tensor& x, activation which);

at::Tensor activate(const at::Tensor& x, activation which);
at::Tensor activate_backward(const at::Tensor& gradient, const at::Tensor& x,
                             activation which);

bool has_gated_kernel(const at::Tensor& x, const at::Tensor& factor,
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
