// Updates of each element by itself.
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "troupe/engine/stage/update/optimizer_rule.hpp"

namespace troupe {

namespace {

/// The tensor with an index in each parameter's state.
tensor_list nth(const tensor_lists& state, std::size_t index) {
  tensor_list tensors;
  for (const auto& each : state)
    tensors.push_back(each[index]);
  return tensors;
}

}  // namespace

parameter_list fresh_state(const sgd& options, const at::Tensor& parameter) {
  if (options.momentum == 0)
    return {};
  return {{"momentum_buffer", at::zeros_like(parameter)}};
}

void update(const sgd& options, const update_lists& lists,
            double learning_rate) {
  at::_fused_sgd_(lists.parameters, lists.gradients,
                  options.momentum == 0 ? tensor_list{} : nth(lists.state, 0),
                  options.weight_decay, options.momentum, learning_rate,
                  options.dampening, options.nesterov, /*maximize=*/false,
                  lists.first);
}

parameter_list fresh_state(const adamw&, const at::Tensor& parameter) {
  return {{"step", at::zeros({}, parameter.options().dtype(at::kFloat))},
          {"exp_avg", at::zeros_like(parameter)},
          {"exp_avg_sq", at::zeros_like(parameter)}};
}

void update(const adamw& options, const update_lists& lists,
            double learning_rate) {
  auto steps = nth(lists.state, 0);
  at::_foreach_add_(steps, 1);
  at::_fused_adamw_(lists.parameters, lists.gradients, nth(lists.state, 1),
                    nth(lists.state, 2), /*max_exp_avg_sqs=*/{}, steps,
                    learning_rate, options.beta1, options.beta2,
                    options.weight_decay, options.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false);
}

parameter_list fresh_state(const lion&, const at::Tensor& parameter) {
  return {{"exp_avg", at::zeros_like(parameter)}};
}

void update(const lion& options, const update_lists& lists,
            double learning_rate) {
  for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
    const auto& [parameter, gradient, average] =
      std::tie(lists.parameters[i], lists.gradients[i], lists.state[i][0]);
    const auto direction =
      average.mul(options.beta1).add_(gradient, 1 - options.beta1).sign_();
    parameter.mul_(1 - learning_rate * options.weight_decay);
    parameter.add_(direction, -learning_rate);
    average.mul_(options.beta2).add_(gradient, 1 - options.beta2);
  }
}

}  // namespace troupe
