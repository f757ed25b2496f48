#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

microbatch_data brought(
  const microbatch_data& data,
  const std::function<at::Tensor(const at::Tensor&)>& bring) {
  microbatch_data there;
  for (const auto& tensor : data.inputs)
    there.inputs.push_back(bring(tensor));
  for (const auto& tensor : data.targets)
    there.targets.push_back(bring(tensor));
  for (const auto& [name, tensor] : data.arguments)
    there.arguments.emplace(name, bring(tensor));
  for (const auto& [loss, items] : data.items)
    there.items.emplace(loss, loss_items{items.own, bring(items.divisors)});
  there.tokens = data.tokens;
  return there;
}

tensor_list tensors_of(const microbatch_data& data) {
  tensor_list all;
  brought(data, [&](const at::Tensor& tensor) {
    all.push_back(tensor);
    return tensor;
  });
  return all;
}

}  // namespace troupe
