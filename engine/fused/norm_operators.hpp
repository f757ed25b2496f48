#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace troupe::fused {

struct normalized {
  at::Tensor output;  // as x, contiguous
  /// [rows]: of each row; scale: 1 / sqrt(variance + epsilon). In fp32, or as
  /// LibTorch's operator gives them. The mean of RMSNorm is undefined, and its
  /// variance that from zero.
  at::Tensor mean, scale;
};

/// LayerNorm over the last dimension, or RMSNorm if the bias is undefined,
/// without an autograd graph. x: [..., width]; weight and bias: [width], of x's
/// dtype or, if that is bf16, fp32. `type`: the output's dtype; x's if there is
/// none. For fp32 on CPUs with AVX2 or AVX-512, and with the latter also for
/// bf16, and on GPUs for rows that `has_gpu_norm` takes, by a kernel that
/// computes in fp32: a row's bits depend on that row alone. Else by LibTorch's
/// operators. Any thread.
normalized normalize(const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias, double epsilon,
                     std::optional<at::ScalarType> type = {});

/// Whether it is by a kernel.
bool has_norm_kernel(const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias);

struct norm_gradients {
  at::Tensor x, weight, bias;  // bias: may be undefined
};

/// Gradients of `normalize`, whose mean and scale `of` has (the output is not
/// read). `gradient`: of any dtype. `added`: undefined, or a gradient that is
/// added to that of x, such as that of a residual connection, on GPUs in the
/// same pass, and rounded as a sum of its own.
/// Sums over rows are in a fixed order for each number of rows.
norm_gradients normalize_backward(const at::Tensor& gradient,
                                  const at::Tensor& x, const normalized& of,
                                  const at::Tensor& weight, bool has_bias,
                                  const at::Tensor& added = {});

}  // namespace troupe::fused
