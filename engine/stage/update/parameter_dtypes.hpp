#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The dtypes of a model's floating-point parameters and buffers, as
/// `compute_dtype` and `buffer_dtype` of XLA's fully sharded data parallel;
/// none: that of the layers, which is fp32.
struct parameter_dtypes {
  std::optional<c10::ScalarType>
    parameters{};                            // and of values computed from them
  std::optional<c10::ScalarType> buffers{};  // none: that of the parameters
};

/// Throws `invalid_argument` for a dtype other than fp32, bf16 and fp16.
void require_legal(const parameter_dtypes& dtypes);

/// The tensor in another dtype; the tensor itself if there is none, or if it is
/// not floating point.
at::Tensor converted(const at::Tensor& tensor,
                     std::optional<c10::ScalarType> dtype);
tensor_list converted(const tensor_list& tensors,
                      std::optional<c10::ScalarType> dtype);

}  // namespace troupe
