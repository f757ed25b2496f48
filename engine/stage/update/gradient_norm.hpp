#pragma once

#include <vector>

#include "troupe/engine/device/norm_type.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The sum of |value|^p of each parameter's gradient, or for infinity the
/// largest |value|, in double, in the order of the list; 0 without a gradient,
/// NaN if a value is. The powers of all stages, joined in model order, give the
/// same norm however the model is split. A device computes those of its
/// gradients in an order of its own, so the last bits of sums differ from a
/// CPU's; the host waits for it.
std::vector<double> gradient_powers(const tensor_list& parameters,
                                    norm_type type,
                                    rank_device* device = nullptr);

/// The p-norm from per-parameter powers in model order.
double norm_of(const std::vector<double>& powers, norm_type type);

/// The last parameter whose power is not finite; -1: all are.
std::ptrdiff_t last_not_finite(const std::vector<double>& powers);

/// The factor that reduces `norm` to at most `max_norm`, as PyTorch's
/// clip_grad_norm_: max_norm / (norm + 1e-6), at most 1. It is 0 for an
/// infinite norm, NaN for a NaN, and 1 if `max_norm` is 0: no clipping.
double clip_factor(double norm, double max_norm);

/// Multiplies all gradients, in fp32 where they have 16 bits; does nothing if
/// factor is 1.
void scale_gradients(const tensor_list& parameters, double factor);

}  // namespace troupe
