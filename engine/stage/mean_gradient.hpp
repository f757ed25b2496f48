#pragma once

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The sum of one parameter's gradients, by replica and copy, added in that
/// order, into the first one, divided by the number of replicas. A missing
/// gradient counts as zeros; undefined if all are missing.
at::Tensor mean_gradient(const tensor_list& gradients, std::int32_t replicas);

}  // namespace troupe
