#pragma once

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The mean of one parameter's gradients, by replica, added in that order, into
/// the first one that is defined. A missing gradient counts as zeros; undefined
/// if all are missing.
at::Tensor mean_gradient(const tensor_list& of_replicas);

}  // namespace troupe
