#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace troupe {

/// Matrix products by the faster of LibTorch's libraries. For fp32 on the host
/// LibTorch takes MKL, which uses AVX-512 on Intel's processors alone; on
/// others that have it oneDNN takes half the time (docs/design.md), and is
/// used for large products, and kernels of our own for small ones
/// (small_product.hpp). Everything else is ATen's, and all within an
/// `autocast_scope`. The choice depends on the processor, on shapes and on the
/// number of intra-op threads alone, so that a product has the same bits each
/// time. Throw what ATen throws. Any thread.

/// x W^T + b; x: [..., inputs], weight: [outputs, inputs] of any strides, bias:
/// [outputs]. With a gradient graph if one is wanted, then always by ATen.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias = {});

/// a b, of matrices that need no gradient.
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b);

/// sum += a b, likewise; an undefined sum becomes the product, of that type. In
/// the sum's own type in parts of at most 16 MiB, for which an operand that is
/// not contiguous may be copied. On GPUs, factors of bf16 or fp16 are
/// multiplied and added in fp32 by one call; on the host, their product is
/// rounded first.
void add_matrix_product(at::Tensor& sum, const at::Tensor& a,
                        const at::Tensor& b, at::ScalarType type);

}  // namespace troupe
