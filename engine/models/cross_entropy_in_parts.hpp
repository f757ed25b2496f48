#pragma once

#include <cstdint>

#include "troupe/engine/stage/loss.hpp"

namespace troupe {

/// The term of `cross_entropy_loss` for the logits x W^T of all positions, of
/// which those of `positions` are made at once, and anew in the backward:
/// memory does not grow with the vocabulary (as in Liger kernels, Hsu et al.,
/// 2024). x: [..., width]; weight: [classes, width]; targets: int64 [...], of
/// -100: ignored. Within rounding of the loss of all logits; logits of 16 bits
/// are rounded to these, and the rest is in fp32.
loss_term cross_entropy_in_parts(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& targets,
                                 std::int64_t positions);

}  // namespace troupe
