#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::fused {

// Cross entropy of rows of logits without an autograd graph, in fp32 whatever
// the logits' dtype; kept for the gradient are two numbers per row. For fp32
// and bf16 on CPUs with AVX2 or AVX-512, and for fp16, too, on GPUs; else by
// LibTorch's operators. logits: [rows, classes]; targets: int64 [rows]. Throws
// `invalid_argument` on the CPU for a target that is neither a class nor
// `ignored`; on a GPU its loss is NaN. Any thread.

struct row_losses {
  at::Tensor sum;  // fp32, of the rows that are not ignored
  /// fp32 [rows, 2]: the greatest logit, and the logarithm of the sum of
  /// exponentials of the logits less it.
  at::Tensor norms;
};

row_losses cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                         std::int64_t ignored);

/// Overwrites contiguous logits with the gradient of `scale` times the sum;
/// scale: fp32, of one element. Ignored rows get zeros.
void cross_entropy_gradient_(const at::Tensor& logits,
                             const at::Tensor& targets, const at::Tensor& norms,
                             const at::Tensor& scale, std::int64_t ignored);

}  // namespace troupe::fused
