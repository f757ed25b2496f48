#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::fused {

/// LayerNorm over the last dimension (Ba et al., 2016). x: [..., width]; weight
/// and bias: [width], of x's dtype or, if that is bf16, fp32. Result: as x.
///
/// On CPUs with AVX2 or AVX-512, for fp32 and bf16, by a kernel of troupe's,
/// which computes in fp32: a row's bits depend on that row alone, and those of
/// the gradients of weight and bias not on the number of threads. Their
/// gradient has no gradient. On GPUs, for fp32, bf16 and fp16, rows of 4 to
/// 8,192 values in multiples of four, without gaps, by kernels of the same kind
/// (engine/cuda/). Otherwise by LibTorch's layer_norm, as where autocast on a
/// GPU makes its result fp32. Throws what that throws on shapes that don't
/// match. Any thread.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, double epsilon = 1e-5);

/// The same without a mean and bias: x / sqrt(mean(x^2) + epsilon) * weight
/// (RMSNorm, Zhang and Sennrich, 2019), and otherwise by LibTorch's rms_norm.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight,
                    double epsilon = 1e-5);

}  // namespace troupe::fused
