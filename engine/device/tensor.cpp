#include "troupe/engine/device/tensor.hpp"

#include <fmt/ranges.h>

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

}  // namespace troupe
