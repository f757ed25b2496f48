#include "troupe/engine/stage/update/parameter_dtypes.hpp"

#include "troupe/base/fail.hpp"

namespace troupe {

void require_legal(const parameter_dtypes& dtypes) {
  for (const auto& each : {dtypes.parameters, dtypes.buffers})
    if (each && *each != at::kFloat && *each != at::kBFloat16
        && *each != at::kHalf)
      fail(error_code::invalid_argument,
           "parameters and buffers can't be {}; use fp32, bf16 or fp16",
           c10::toString(*each));
}

at::Tensor converted(const at::Tensor& tensor,
                     std::optional<c10::ScalarType> dtype) {
  return dtype && tensor.defined() && tensor.is_floating_point()
           ? tensor.to(*dtype)
           : tensor;
}

tensor_list converted(const tensor_list& tensors,
                      std::optional<c10::ScalarType> dtype) {
  auto all = tensors;
  for (auto& each : all)
    each = converted(each, dtype);
  return all;
}

}  // namespace troupe
