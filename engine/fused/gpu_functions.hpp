#pragma once

#include <ATen/core/Tensor.h>

#include "troupe/engine/fused/activation_operators.hpp"
#include "troupe/engine/fused/cross_entropy.hpp"
#include "troupe/engine/fused/norm_operators.hpp"

namespace troupe::fused {

/// Functions of layers by kernels of libtroupe_cuda.so, which compute in fp32,
/// in a fixed order: equal bits from run to run. Tensors are of fp32, bf16 or
/// fp16, and without gaps; copied if they don't begin at a multiple of four
/// values. Each function runs on the current stream; errors are
/// `error`s (device). Any thread.

/// Whether the kernels take such rows: x is on a GPU whose library is loaded,
/// and its width a multiple of 4, up to 8,192.
bool has_gpu_norm(const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias);

/// As `normalize`.
normalized norm_on_gpu(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, double epsilon,
                       at::ScalarType type);

/// As `normalize_backward`, in one pass over the rows. Adding rounds as a sum
/// of its own does.
norm_gradients norm_backward_on_gpu(const at::Tensor& gradient,
                                    const at::Tensor& x, const normalized& of,
                                    const at::Tensor& weight, bool has_bias,
                                    const at::Tensor& added);

/// Whether `sum_columns_on_gpu` takes rows [..., columns] like these, and that
/// sum or, if it is undefined, a new one.
bool has_gpu_column_sums(const at::Tensor& sum, const at::Tensor& rows);

/// sum = the sum of all rows, or is added to; sum: fp32 [columns].
void sum_columns_on_gpu(const at::Tensor& sum, const at::Tensor& rows,
                        bool adds);

/// Whether the two below take tensors like this one, all of its shape.
bool has_gpu_activations(const at::Tensor& x);

/// activation(x) * factor.
at::Tensor gated_on_gpu(const at::Tensor& x, const at::Tensor& factor,
                        activation which);

gated_gradients gated_backward_on_gpu(const at::Tensor& gradient,
                                      const at::Tensor& x,
                                      const at::Tensor& factor,
                                      activation which);

/// Whether x, [rows, positions, heads, size], is rotated by that many pairs.
bool has_gpu_rotation(const at::Tensor& x, std::int64_t pairs);

/// As `rotate`; `inverse`: by the negative angles. Contiguous. x is copied if
/// its strides are no multiples of four, or that of the elements is not 1.
at::Tensor rotate_on_gpu(const at::Tensor& x, const at::Tensor& cosines,
                         const at::Tensor& sines, bool inverse);

/// Whether the two below take such logits, [rows, classes].
bool has_gpu_cross_entropy(const at::Tensor& logits);

/// As `cross_entropy` and `cross_entropy_gradient_`.
row_losses cross_entropy_on_gpu(const at::Tensor& logits,
                                const at::Tensor& targets,
                                std::int64_t ignored);
void cross_entropy_gradient_on_gpu(const at::Tensor& logits,
                                   const at::Tensor& targets,
                                   const at::Tensor& norms,
                                   const at::Tensor& scale,
                                   std::int64_t ignored);

}  // namespace troupe::fused
