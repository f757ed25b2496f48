// Updates of each element by itself.
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "troupe/engine/stage/update/optimizer_rule.hpp"

namespace troupe {

namespace {

/// One tensor of the state of each parameter.
tensor_list nth(const tensor_lists& state, std::size_t index) {
  tensor_list found;
  for (const auto& each : state)
    found.push_back(each[index]);
  return found;
}

class sgd_rule final : public optimizer_rule {
 public:
  explicit sgd_rule(const sgd& options) : options_(options) {}

  parameter_list fresh_state(const at::Tensor& parameter) const override {
    if (options_.momentum == 0)
      return {};
    return {{"momentum_buffer", at::zeros_like(parameter)}};
  }

  void update(const update_lists& lists, double learning_rate) const override {
    at::_fused_sgd_(
      lists.parameters, lists.gradients,
      options_.momentum == 0 ? tensor_list{} : nth(lists.state, 0),
      options_.weight_decay, options_.momentum, learning_rate,
      options_.dampening, options_.nesterov, /*maximize=*/false, lists.first);
  }

 private:
  sgd options_;
};

class adamw_rule final : public optimizer_rule {
 public:
  explicit adamw_rule(const adamw& options) : options_(options) {}

  parameter_list fresh_state(const at::Tensor& parameter) const override {
    return {{"step", at::zeros({}, parameter.options().dtype(at::kFloat))},
            {"exp_avg", at::zeros_like(parameter)},
            {"exp_avg_sq", at::zeros_like(parameter)}};
  }

  void update(const update_lists& lists, double learning_rate) const override {
    auto steps = nth(lists.state, 0);
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(lists.parameters, lists.gradients, nth(lists.state, 1),
                      nth(lists.state, 2), /*max_exp_avg_sqs=*/{}, steps,
                      learning_rate, options_.beta1, options_.beta2,
                      options_.weight_decay, options_.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
  }

 private:
  adamw options_;
};

class lion_rule final : public optimizer_rule {
 public:
  explicit lion_rule(const lion& options) : options_(options) {}

  parameter_list fresh_state(const at::Tensor& parameter) const override {
    return {{"exp_avg", at::zeros_like(parameter)}};
  }

  void update(const update_lists& lists, double learning_rate) const override {
    for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
      const auto& [parameter, gradient, average] =
        std::tie(lists.parameters[i], lists.gradients[i], lists.state[i][0]);
      const auto direction =
        average.mul(options_.beta1).add_(gradient, 1 - options_.beta1).sign_();
      parameter.mul_(1 - learning_rate * options_.weight_decay);
      parameter.add_(direction, -learning_rate);
      average.mul_(options_.beta2).add_(gradient, 1 - options_.beta2);
    }
  }

 private:
  lion options_;
};

}  // namespace

std::unique_ptr<optimizer_rule> make_rule(const sgd& options) {
  return std::make_unique<sgd_rule>(options);
}

std::unique_ptr<optimizer_rule> make_rule(const adamw& options) {
  return std::make_unique<adamw_rule>(options);
}

std::unique_ptr<optimizer_rule> make_rule(const lion& options) {
  return std::make_unique<lion_rule>(options);
}

}  // namespace troupe
