#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/events/tensor_record.hpp"

namespace torch::nn {
class Module;
}

namespace troupe {

/// A value that entered or left a module, with its index in the list.
struct observed_value {
  at::Tensor tensor{};
  tensor_content content = tensor_content::tensor;
  std::int16_t index = -1, inner = -1;
};
using observed_values = std::vector<observed_value>;

/// Whether a monitor wants what modules publish in the calling thread now.
bool is_observed();
/// Publishes a call of a module, if the thread has an observer.
void observe_call(const torch::nn::Module& module,
                  const observed_values& inputs,
                  const observed_values& outputs);

/// Collects a value for monitors: tensors, also in lists and tuples and one
/// level further; nothing for an empty optional or an undefined tensor;
/// anything else as a value that is not a tensor.
template <class T>
void collect(observed_values& target, const T& value, std::int16_t index = -1,
             std::int16_t inner = -1);

template <class T>
void collect(observed_values& target, const T& value, std::int16_t index,
             std::int16_t inner) {
  std::int16_t position = 0;
  [[maybe_unused]] const auto collect_next = [&](const auto& each) {
    if (index < 0)
      collect(target, each, position++);
    else
      collect(target, each, index, position++);
  };
  if constexpr (std::is_convertible_v<const T&, const at::Tensor&>) {
    const at::Tensor& tensor = value;
    target.push_back(
      {tensor,
       tensor.defined() ? tensor_content::tensor : tensor_content::nothing,
       index, inner});
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    if (value)
      collect(target, *value, index, inner);
    else
      target.push_back({{}, tensor_content::nothing, index, inner});
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](const auto&... each) { (collect_next(each), ...); }, value);
  } else if constexpr (requires {
                         value.begin();
                         value.end();
                         requires !std::is_convertible_v<T, std::string>;
                       }) {
    for (const auto& each : value)
      collect_next(each);
  } else {
    target.push_back({{}, tensor_content::other, index, inner});
  }
}

/// Runs `module(inputs...)` and publishes its weights, inputs and outputs, and
/// in the backward pass the gradients of the outputs, under the module's dotted
/// name. Without a subscription it costs one predictable branch. Call it inside
/// a `stage_module`'s forward, instead of `module->forward(inputs...)`.
template <class Module, class... Inputs>
auto observe(Module& module, Inputs&&... inputs) {
  if (!is_observed()) [[likely]]
    return module->forward(std::forward<Inputs>(inputs)...);
  observed_values arguments, results;
  std::int16_t at = 0;
  (collect(arguments, inputs, at++), ...);
  auto output = module->forward(std::forward<Inputs>(inputs)...);
  collect(results, output);
  observe_call(*module, arguments, results);
  return output;
}

/// Adds to a metric of the model's own; reported by name at the step's end as
/// the count-weighted mean over microbatches, stages and data ranks.
void report_metric(const std::string& name, double value, double count = 1);

}  // namespace troupe
