#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/update/update_options.hpp"

namespace troupe {

/// The tensor in another dtype; the tensor itself if there is none, or if it is
/// not floating point.
at::Tensor converted(const at::Tensor& tensor,
                     std::optional<c10::ScalarType> dtype);
tensor_list converted(const tensor_list& tensors,
                      std::optional<c10::ScalarType> dtype);

}  // namespace troupe
