#include "troupe/engine/device/tensor.hpp"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/view_as_real.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

namespace troupe {

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined())
    return "undefined";
  const auto sizes = tensor.sizes();
  return fmt::format("{}[{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(sizes.begin(), sizes.end(), ", "));
}

std::string describe(const tensor_list& tensors) {
  std::vector<std::string> parts;
  for (const auto& tensor : tensors)
    parts.push_back(describe(tensor));
  return fmt::format("({})", fmt::join(parts, ", "));
}

bool lies_by_instances(const at::Tensor& tensor) {
  if (tensor.is_contiguous())
    return true;
  return tensor.is_non_overlapping_and_dense()
         && (tensor.size(0) == 1
             || tensor.stride(0) == tensor.numel() / tensor.size(0));
}

bool is_finite(const at::Tensor& tensor) {
  const bool is_complex = tensor.defined() && tensor.is_complex();
  if (!tensor.defined() || tensor.numel() == 0
      || !(tensor.is_floating_point() || is_complex))
    return true;
  auto values = tensor.detach();
  if (is_complex)
    values = at::view_as_real(values);
  if (values.element_size() == 1)
    values = values.to(at::kFloat);
  const auto [least, most] = at::aminmax(values);  // a NaN is both
  return std::isfinite(least.item<double>())
         && std::isfinite(most.item<double>());
}

std::string first_not_finite(const parameter_list& tensors) {
  const auto found = std::ranges::find_if(
    tensors, [](const auto& each) { return !is_finite(each.second); });
  return found == tensors.end() ? std::string{} : found->first;
}

std::uint64_t content_hash(const at::Tensor& tensor) {
  const auto dense = tensor.detach().contiguous().cpu();
  return std::hash<std::string_view>{}(
    {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()});
}

}  // namespace troupe
