#include "troupe/engine/device/tensor.hpp"

#include <fmt/ranges.h>

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

std::uint64_t content_hash(const at::Tensor& tensor) {
  const auto dense = tensor.detach().contiguous().cpu();
  return std::hash<std::string_view>{}(
    {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()});
}

}  // namespace troupe
