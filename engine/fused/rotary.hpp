#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::fused {

/// Rotates pairs of each head's elements by the angle of their position:
/// element i and i + pairs, of i < pairs (RoFormer, Su et al., 2021; pairs as
/// in Hugging Face's models). The elements from 2 * pairs on stay. x: [rows,
/// positions, heads, size] of any strides; cosines and sines: fp32 [positions,
/// pairs], which have no gradient. Result: of x's dtype, contiguous. Computed
/// in fp32, in one pass, as the gradient is, for fp32 and bf16 on CPUs with
/// AVX2 or AVX-512, and for fp16, too, on GPUs; else by LibTorch's operators.
/// Throws `invalid_argument` on shapes that don't match. Any thread.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosines,
                  const at::Tensor& sines);
/// Rotates back by the same angles, as the gradient of `rotate` is, without a
/// graph.
at::Tensor rotate_back(const at::Tensor& x, const at::Tensor& cosines,
                       const at::Tensor& sines);

}  // namespace troupe::fused
