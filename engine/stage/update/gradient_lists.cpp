#include "troupe/engine/stage/update/gradient_lists.hpp"

#include <utility>

#include "troupe/base/fail.hpp"

namespace troupe {

at::Tensor read_on_host(const at::Tensor& tensor, rank_device* device) {
  if (!device)
    return tensor;
  const auto copy = to_host(tensor, device->compute());
  copy.ready->wait();
  return copy.tensor;
}

std::vector<bool> read_presence(const at::Tensor& row, rank_device* device) {
  const auto numbers = read_on_host(row, device).to(at::kFloat).contiguous();
  const auto* first = numbers.const_data_ptr<float>();
  return std::vector<bool>(first, first + numbers.numel());
}

tensor_list values_of(const parameter_list& parameters) {
  tensor_list values;
  values.reserve(parameters.size());
  for (const auto& [name, value] : parameters)
    values.push_back(value);
  return values;
}

parameter_list norm_parameters_of(parameter_list parameters,
                                  const std::vector<tied_gradient>& tied) {
  for (const auto& each : tied)
    if (!each.is_owner)
      parameters[each.position].second.reset();
  std::erase_if(parameters,
                [](const auto& each) { return !each.second.defined(); });
  return parameters;
}

void widen_gradients(const tensor_list& parameters) {
  for (const auto& parameter : parameters)
    if (const auto& gradient = parameter.grad();
        gradient.defined() && at::isReducedFloatingType(gradient.scalar_type()))
      parameter.mutable_grad() = gradient.to(at::kFloat);
}

tensor_list take_gradients(const tensor_list& parameters) {
  tensor_list gradients;
  gradients.reserve(parameters.size());
  for (auto parameter : parameters)
    gradients.push_back(std::exchange(parameter.mutable_grad(), {}));
  return gradients;
}

void put_gradients(const tensor_list& parameters, tensor_list gradients) {
  if (gradients.size() != parameters.size())
    fail(error_code::internal, "there are {} gradients of {} parameters",
         gradients.size(), parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    at::Tensor{parameters[i]}.mutable_grad() = std::move(gradients[i]);
}

}  // namespace troupe
