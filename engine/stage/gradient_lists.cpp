#include "troupe/engine/stage/gradient_lists.hpp"

#include <utility>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

void remove_absent(tensor_list& gradients, rank_device& device) {
  const auto row = to_host(gradients.back(), device.compute());
  row.ready->wait();
  const auto has = row.tensor.to(at::kFloat);
  gradients.pop_back();
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (has.const_data_ptr<float>()[i] == 0)
      gradients[i].reset();
}

}  // namespace

tensor_list take_gradients(const tensor_list& parameters) {
  tensor_list gradients;
  gradients.reserve(parameters.size());
  for (auto parameter : parameters)
    gradients.push_back(std::exchange(parameter.mutable_grad(), {}));
  return gradients;
}

void put_gradients(const tensor_list& parameters, tensor_list gradients,
                   rank_device* device) {
  if (device && gradients.size() == parameters.size() + 1)
    remove_absent(gradients, *device);
  if (gradients.size() != parameters.size())
    fail(error_code::internal, "there are {} gradients of {} parameters",
         gradients.size(), parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    at::Tensor{parameters[i]}.mutable_grad() = std::move(gradients[i]);
}

}  // namespace troupe
