#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/models/layers/layers.hpp"
#include "troupe/engine/stage/loss.hpp"

namespace troupe {

/// The term of `cross_entropy_loss` for logits that are the sum of x W^T of
/// these factors (a layer's, and its adapter's). The logits of `positions` are
/// made at once, and anew in the backward: memory does not grow with the
/// vocabulary (as in Liger kernels, Hsu et al., 2024). x: [..., width]; weight:
/// [classes, width]; targets: int64 [...], of -100: ignored. Within rounding of
/// the loss of all logits; logits of 16 bits are rounded to these, and the rest
/// is in fp32.
loss_term cross_entropy_in_parts(const std::vector<linear_factors>& logits,
                                 const at::Tensor& targets,
                                 std::int64_t positions);

}  // namespace troupe
