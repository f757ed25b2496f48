#include "troupe/engine/stage/optimizer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

/// Indices of the parameters that have a gradient in this step.
std::vector<std::size_t> with_gradient(const tensor_list& parameters) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].grad().defined())
      found.push_back(i);
  return found;
}

tensor_list pick(const tensor_list& source,
                 const std::vector<std::size_t>& index) {
  tensor_list picked;
  for (const auto i : index)
    picked.push_back(source[i]);
  return picked;
}

tensor_list gradients_of(const tensor_list& parameters) {
  tensor_list gradients;
  for (const auto& parameter : parameters)
    gradients.push_back(parameter.grad());
  return gradients;
}

class sgd_optimizer final : public optimizer {
 public:
  sgd_optimizer(const sgd& options, tensor_list parameters)
    : options_(options),
      parameters_(std::move(parameters)),
      momentum_(parameters_.size()) {}

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    // A parameter's first gradient starts its momentum; later ones add to it.
    std::vector<std::size_t> fresh, known;
    for (const auto i : with_gradient(parameters_))
      (momentum_[i].defined() ? known : fresh).push_back(i);
    update(known, learning_rate, false);
    if (options_.momentum != 0)
      for (const auto i : fresh)
        momentum_[i] = at::zeros_like(parameters_[i]);
    update(fresh, learning_rate, true);
  }

 private:
  void update(const std::vector<std::size_t>& which, double learning_rate,
              bool first) {
    if (which.empty())
      return;
    const auto parameters = pick(parameters_, which);
    const auto momentum =
      options_.momentum != 0 ? pick(momentum_, which) : tensor_list{};
    at::_fused_sgd_(parameters, gradients_of(parameters), momentum,
                    options_.weight_decay, options_.momentum, learning_rate,
                    /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                    first);
  }

  sgd options_;
  tensor_list parameters_;
  tensor_list momentum_;
};

class adamw_optimizer final : public optimizer {
 public:
  adamw_optimizer(const adamw& options, tensor_list parameters)
    : options_(options), parameters_(std::move(parameters)) {
    for (const auto& parameter : parameters_) {
      average_.push_back(at::zeros_like(parameter));
      squared_average_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat)));
    }
  }

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    const auto which = with_gradient(parameters_);
    if (which.empty())
      return;
    const auto parameters = pick(parameters_, which);
    auto steps = pick(steps_, which);
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(parameters, gradients_of(parameters),
                      pick(average_, which), pick(squared_average_, which),
                      /*max_exp_avg_sqs=*/{}, steps, learning_rate,
                      options_.beta1, options_.beta2, options_.weight_decay,
                      options_.epsilon, /*amsgrad=*/false,
                      /*maximize=*/false);
  }

 private:
  adamw options_;
  tensor_list parameters_;
  tensor_list average_;
  tensor_list squared_average_;
  tensor_list steps_;
};

}  // namespace

namespace {

void require(bool holds, const char* what, double value, const char* legal) {
  if (!holds)
    fail(error_code::invalid_argument, "the {} of the optimizer is {}; use {}",
         what, value, legal);
}

void require_at_least_0(const char* what, double value) {
  require(std::isfinite(value) && value >= 0, what, value,
          "a finite number, 0 or more");
}

void require_fraction(const char* what, double value) {
  require(value >= 0 && value < 1, what, value, "a number from 0 to below 1");
}

}  // namespace

void require_legal(const optimizer_options& options) {
  require_at_least_0("learning rate", base_learning_rate(options));
  if (const auto* plain = std::get_if<sgd>(&options)) {
    require_fraction("momentum", plain->momentum);
    require_at_least_0("weight decay", plain->weight_decay);
  }
  if (const auto* adam = std::get_if<adamw>(&options)) {
    require_fraction("beta1", adam->beta1);
    require_fraction("beta2", adam->beta2);
    require_at_least_0("epsilon", adam->epsilon);
    require_at_least_0("weight decay", adam->weight_decay);
  }
}

double base_learning_rate(const optimizer_options& options) {
  return std::visit([](const auto& kind) { return kind.learning_rate; },
                    options);
}

std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options,
                                          tensor_list parameters) {
  require_legal(options);
  if (const auto* plain = std::get_if<sgd>(&options))
    return std::make_unique<sgd_optimizer>(*plain, std::move(parameters));
  return std::make_unique<adamw_optimizer>(std::get<adamw>(options),
                                           std::move(parameters));
}

}  // namespace troupe
