#pragma once

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The mean of one parameter's gradients, by replica, added in that order; into
/// the first of them, where there is one. One that is missing counts as zeros;
/// undefined if all are.
at::Tensor mean_gradient(const tensor_list& of_replicas);

}  // namespace troupe
