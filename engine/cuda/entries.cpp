#include "troupe/engine/cuda/entries.hpp"

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

at::Tensor readable(const at::Tensor& tensor) {
  auto result = tensor.detach().resolve_neg();
  if (!device_type_of(result))
    result = result.to(result.element_size() < 4 ? at::kFloat : at::kDouble);
  return lies_by_instances(result) ? result : result.contiguous();
}

statistics_entry statistics_entry_of(const at::Tensor& tensor) {
  const auto instances = tensor.dim() == 0 ? 1 : tensor.size(0);
  auto entry = cut(instances, tensor.numel() / instances);
  entry.data = tensor.const_data_ptr();
  entry.type = device_type_of(tensor).value();
  return entry;
}

flat_entry flat_entry_of(const at::Tensor& tensor) {
  flat_entry entry;
  entry.data = tensor.data_ptr();
  entry.count = tensor.numel();
  entry.type = device_type_of(tensor).value();
  return entry;
}

}  // namespace troupe
