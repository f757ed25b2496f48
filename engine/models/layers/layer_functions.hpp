#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "troupe/engine/fused/norm_operators.hpp"
#include "troupe/engine/models/layers/layers.hpp"

namespace troupe {

// What layers and functions of several layers compute in the same way, bit for
// bit, without a graph. Any thread.

/// x W^T + b, in the dtype of x.
at::Tensor linear_forward(const at::Tensor& x,
                          const linear_parameters& parameters);
/// The gradient of x from that of the output's rows: [rows, inputs]. `weight`:
/// in the dtype of `rows`.
at::Tensor linear_backward(const at::Tensor& rows, const at::Tensor& weight,
                           bool transposed);
/// Adds the gradients of the parameters to their `.grad`.
void add_linear_gradients(const linear_parameters& parameters,
                          const at::Tensor& x, const at::Tensor& rows);

/// Adds the gradients of an embedding's outputs to those of its rows, in the
/// order of the ids. `padding`: an id that has none.
void add_embedding_gradient(const at::Tensor& weight, const at::Tensor& ids,
                            const at::Tensor& gradient, std::int64_t padding);

/// Whether `fused::normalize` is to compute the norm of x: on CPUs, and where
/// GPUs have a kernel for it.
bool normalizes(const at::Tensor& x, const norm_parameters& parameters);
/// `type`: the output's dtype; x's if there is none.
fused::normalized norm_forward(const at::Tensor& x,
                               const norm_parameters& parameters,
                               std::optional<at::ScalarType> type = {});
/// Adds those of the parameters that are trained to their `.grad`.
void add_norm_gradients(const norm_parameters& parameters,
                        const fused::norm_gradients& gradients);

}  // namespace troupe
