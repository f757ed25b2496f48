#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::fused {

/// sum += the sum of all rows; an undefined sum becomes it, of that type. rows:
/// [..., columns], of any strides; sum: [columns]. For gradients of biases. On
/// CPUs with AVX2 or AVX-512, for rows in fp32, and with the latter also bf16,
/// and a sum in fp32, by a kernel, in an order that depends on the number of
/// rows alone; so on GPUs, for rows without gaps, of multiples of four values
/// in fp32, bf16 or fp16; else by LibTorch's. Without an autograd graph. Any
/// thread.
void add_column_sums(at::Tensor& sum, const at::Tensor& rows,
                     at::ScalarType type);

}  // namespace troupe::fused
