#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <array>

namespace troupe::fused {

/// Query, key and value, or their gradients: [rows, positions, heads, size], of
/// strides in which a head's elements are adjacent.
using heads_of_three = std::array<at::Tensor, 3>;

struct attended {
  at::Tensor output;  // as the query, contiguous
  at::Tensor
    logarithms;  // fp32 [rows, heads, queries]: of sums of exponentials
};

/// Whether this machine has kernels for the two below that are to be used.
bool has_attention(at::ScalarType type);

/// Attention on the CPU, in fp32 or bf16, without an autograd graph.
attended attend(const heads_of_three& all, double scale, bool causal);
/// Writes the gradients to `to`.
void attend_backward(const heads_of_three& all, const attended& result,
                     const at::Tensor& of_output, const heads_of_three& to,
                     double scale, bool causal);

}  // namespace troupe::fused
