#include "troupe/engine/cuda/operands.hpp"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <optional>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

std::optional<device_type> device_type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return device_type::fp32;
    case at::kDouble:
      return device_type::fp64;
    case at::kHalf:
      return device_type::fp16;
    case at::kBFloat16:
      return device_type::bf16;
    default:
      return {};
  }
}

typed_values values_of(const at::Tensor& tensor) {
  if (!tensor.defined())
    return {};
  const auto type = device_type_of(tensor);
  auto* data = const_cast<void*>(tensor.const_data_ptr());
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (!type || type == device_type::fp64 || !tensor.is_cuda()
      || address % (4 * tensor.element_size()) != 0)
    fail(error_code::invalid_argument,
         "kernels of layers take tensors of fp32, fp16 or bf16 on a GPU that "
         "begin at a multiple of four values, not {}",
         describe(tensor));
  return {data, *type};
}

typed_values dense_values_of(const at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_contiguous())
    fail(error_code::invalid_argument,
         "kernels of layers take contiguous tensors, not {}", describe(tensor));
  return values_of(tensor);
}

void require_one_gpu(std::initializer_list<at::Tensor> tensors) {
  const auto& first = *tensors.begin();
  for (const auto& each : tensors)
    if (each.defined() && (!each.is_cuda() || each.device() != first.device()))
      fail(error_code::invalid_argument,
           "kernels of layers take tensors of one GPU, not {} and {}",
           describe(first), describe(each));
}

at::Tensor floats_like(const at::Tensor& tensor, at::IntArrayRef sizes) {
  return at::empty(sizes, tensor.options().dtype(at::kFloat));
}

float* data_of(const at::Tensor& floats, std::int64_t count) {
  if (!floats.defined())
    return nullptr;
  if (floats.scalar_type() != at::kFloat || !floats.is_contiguous()
      || floats.numel() != count)
    fail(error_code::invalid_argument,
         "kernels of layers take {} contiguous values of fp32 here, not {}",
         count, describe(floats));
  return floats.mutable_data_ptr<float>();
}

cudaStream_t current_stream(const at::Tensor& tensor) {
  return c10::cuda::getCurrentCUDAStream(tensor.get_device()).stream();
}

}  // namespace troupe
