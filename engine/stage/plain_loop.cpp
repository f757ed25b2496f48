#include "troupe/engine/stage/plain_loop.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "troupe/engine/stage/autocast.hpp"
#include "troupe/engine/stage/gradient_norm.hpp"

namespace troupe {

namespace {

layer_range all_of(const model& layers) {
  return {0, static_cast<std::int32_t>(layers.size())};
}

tensor_list take_gradients(tensor_list& parameters) {
  tensor_list gradients;
  for (auto& parameter : parameters) {
    gradients.push_back(parameter.grad());
    parameter.mutable_grad() = at::Tensor{};
  }
  return gradients;
}

}  // namespace

plain_loop::plain_loop(const model& layers, plain_options options)
  : options_(std::move(options)),
    module_(std::make_shared<layer_sequence>(layers, all_of(layers))),
    scale_(options_.loss_scale) {
  for (const auto& [name, value] : module_->parameters_by_name())
    values_.push_back(value);
  optimizer_ = make_optimizer(options_.optimizer, values_);
}

at::Tensor plain_loop::loss_of(const microbatch_data& data) {
  const autocast_scope casts(options_.autocast, c10::kCPU);
  const auto outputs = module_->forward(data.inputs, data.arguments);
  return weighted_sum(options_.loss(outputs, data));
}

void plain_loop::accumulate(const data_function& at, std::int32_t replica,
                            result& outcome, double& loss_sum) {
  const auto m = options_.microbatches;
  for (std::int32_t k = 0; k < m; ++k) {
    const auto data = at(replica * m + k);
    const auto loss = loss_of(data);
    torch::autograd::backward(
      {loss}, {at::full_like(loss.detach(), scale_.value() / m)});
    loss_sum += loss.item<double>();
    outcome.tokens += data.tokens;
  }
}

void plain_loop::average(std::vector<tensor_list> replicas) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    auto sum = replicas[0][i];
    if (!sum.defined())
      continue;
    for (std::size_t r = 1; r < replicas.size(); ++r)
      sum.add_(replicas[r][i]);
    values_[i].mutable_grad() =
      replicas.size() > 1 ? sum.div_(static_cast<double>(replicas.size()))
                          : sum;
  }
}

plain_loop::result plain_loop::step(const data_function& at) {
  const at::AutoGradMode with_graph(true);
  module_->train();
  result outcome;
  double loss_sum = 0;
  std::vector<tensor_list> replicas;
  take_gradients(values_);
  for (std::int32_t d = 0; d < options_.data_parallel; ++d) {
    accumulate(at, d, outcome, loss_sum);
    replicas.push_back(take_gradients(values_));
  }
  average(std::move(replicas));
  outcome.loss = loss_sum / (options_.microbatches * options_.data_parallel);
  outcome.gradient_norm =
    norm_of_squares(gradient_squares(values_)) / scale_.value();
  outcome.updated = !scale_.dynamic() || std::isfinite(outcome.gradient_norm);
  ++step_;
  if (outcome.updated) {
    scale_gradients(values_, clip_factor(outcome.gradient_norm, options_.clip)
                               / scale_.value());
    optimizer_->step(
      options_.learning_rate.at(step_, base_learning_rate(options_.optimizer)));
  }
  scale_.update(std::isfinite(outcome.gradient_norm));
  return outcome;
}

double plain_loop::evaluate(const data_function& at, std::int64_t count) {
  const at::NoGradGuard no_grad;
  module_->eval();
  double sum = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    sum += loss_of(at(k)).item<double>();
  }
  return sum / static_cast<double>(count);
}

}  // namespace troupe
