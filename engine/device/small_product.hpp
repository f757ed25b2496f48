#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace troupe {

/// Products of small fp32 matrices on the host, by kernels of troupe's own
/// (small_product_kernels.hpp): of at most 2^23 multiplications (2^20 with
/// several intra-op threads, as they use one), and of sizes and strides that
/// the kernels take. The functions return without computing anything for other
/// products, and on processors on which MKL uses AVX-512. The tensors must not
/// need a gradient. Any thread.

/// As `linear_product`; an undefined tensor if it computes nothing.
at::Tensor small_linear(const at::Tensor& x, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias);
/// As `matrix_product`, likewise.
at::Tensor small_product(const at::Tensor& a, const at::Tensor& b);
/// As `add_matrix_product` to a sum of fp32 that is there, where `a` is the
/// transposed of a contiguous matrix; false if it computes nothing.
bool add_small_product(const at::Tensor& sum, const at::Tensor& a,
                       const at::Tensor& b);

}  // namespace troupe
