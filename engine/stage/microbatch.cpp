#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

microbatch_data transformed(
  const microbatch_data& data,
  const std::function<at::Tensor(const at::Tensor&)>& function) {
  auto result = data;
  for (auto& tensor : result.inputs)
    tensor = function(tensor);
  for (auto& tensor : result.targets)
    tensor = function(tensor);
  for (auto& [name, tensor] : result.arguments)
    tensor = function(tensor);
  for (auto& [loss, items] : result.items)
    items.divisors = function(items.divisors);
  return result;
}

tensor_list tensors_of(const microbatch_data& data) {
  tensor_list all;
  transformed(data, [&](const at::Tensor& tensor) {
    all.push_back(tensor);
    return tensor;
  });
  return all;
}

}  // namespace troupe
