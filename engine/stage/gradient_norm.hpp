#pragma once

#include <vector>

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// Sum of squares of each parameter's gradient, in double, in the order of
/// the list; 0 without a gradient. The squares of all stages, joined in model
/// order and added in that order, give the same norm however the model is
/// split. For gradients on a device, waits for it on the host; computed there
/// in an order of its own, so the last bits differ from a CPU's.
std::vector<double> gradient_squares(const tensor_list& parameters,
                                     rank_device* device = nullptr);

/// l2 norm from per-parameter squares in model order.
double norm_of_squares(const std::vector<double>& squares);

/// Factor that reduces `norm` to at most `max_norm` (as PyTorch's
/// clip_grad_norm_: max_norm / (norm + 1e-6), at most 1); 1 if `max_norm` is 0.
double clip_factor(double norm, double max_norm);

/// Multiplies all gradients in place; does nothing if factor is 1.
void scale_gradients(const tensor_list& parameters, double factor);

}  // namespace troupe
