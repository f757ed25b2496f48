// Updates that read a whole parameter.
#include <ATen/Dispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "troupe/engine/stage/update/optimizer_rule.hpp"

namespace troupe {

namespace {

double epsilon_of(at::ScalarType type) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(
    at::kHalf, at::kBFloat16, type, "epsilon", [] {
      return static_cast<double>(std::numeric_limits<scalar_t>::epsilon());
    });
}

/// A 0-d fp64 tensor on the tensor's device, so that no host waits for it.
at::Tensor root_mean_square(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor)
    .to(at::kDouble)
    .div_(std::sqrt(static_cast<double>(tensor.numel())));
}

/// The mean of the squares along a dimension, which is kept.
at::Tensor mean_square(const at::Tensor& tensor, std::int64_t dimension) {
  return at::linalg_vector_norm(tensor, 2, at::IntArrayRef(&dimension, 1),
                                /*keepdim=*/true)
    .square_()
    .div_(static_cast<double>(tensor.size(dimension)));
}

at::Tensor variance_of(const at::Tensor& gradient, const tensor_list& state,
                       double weight, double epsilon) {
  if (gradient.dim() < 2)
    return state[1].lerp_(gradient * gradient, weight).clone();
  const auto& rows = state[1].lerp_(mean_square(gradient, -1), weight);
  const auto& columns = state[2].lerp_(mean_square(gradient, -2), weight);
  constexpr std::int64_t of_rows = -2;
  const auto mean = rows.mean(at::IntArrayRef(&of_rows, 1), /*keepdim=*/true);
  return at::matmul(rows, columns).div_(mean.clamp_min(epsilon));
}

void update_one(const adafactor& options, const at::Tensor& parameter,
                const at::Tensor& gradient, const tensor_list& state,
                double learning_rate) {
  const auto step = state[0].add_(1).item<double>();
  const auto size = std::min(learning_rate, 1 / std::sqrt(step));
  auto factor =
    root_mean_square(parameter).clamp_min_(options.epsilon2).mul_(-size);
  if (options.weight_decay != 0)
    parameter.mul_(1 - learning_rate * options.weight_decay);
  const auto epsilon =
    options.epsilon1.value_or(epsilon_of(parameter.scalar_type()));
  const auto change =
    variance_of(gradient, state, std::pow(step, options.beta2_decay), epsilon)
      .clamp_min_(epsilon * epsilon)
      .rsqrt_()
      .mul_(gradient);
  factor.div_(root_mean_square(change).div_(options.threshold).clamp_min_(1));
  parameter.add_(change.mul_(factor));
}

double scale_of(const muon& options, const at::Tensor& matrix) {
  const auto rows = static_cast<double>(matrix.size(0));
  const auto columns = static_cast<double>(matrix.size(1));
  return options.scale == muon_scale::original
           ? std::sqrt(std::max(1.0, rows / columns))
           : 0.2 * std::sqrt(std::max(rows, columns));
}

/// U S V^T of the matrix with all singular values S about 1, in bf16.
at::Tensor orthogonal(const muon& options, const at::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = matrix.size(0) > matrix.size(1);
  auto x = matrix.to(at::kBFloat16);
  if (tall)
    x = x.t();
  x =
    x.div(at::linalg_vector_norm(x).clamp_min_(options.newton_schulz_epsilon));
  for (std::int32_t i = 0; i < options.newton_schulz_steps; ++i) {
    const auto gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, b, c), x, a);
  }
  return tall ? x.t() : x;
}

}  // namespace

/// The step is in host memory, as the host computes with it.
parameter_list fresh_state(const adafactor&, const at::Tensor& parameter) {
  parameter_list state{{"step", at::zeros({}, at::kFloat)}};
  const auto zeros = [&](std::int64_t reduced) {
    auto shape = parameter.sizes().vec();
    *(shape.end() - reduced) = 1;
    return at::zeros(shape, parameter.options());
  };
  if (parameter.dim() > 1) {
    state.emplace_back("row_var", zeros(1));
    state.emplace_back("col_var", zeros(2));
  } else {
    state.emplace_back("variance", at::zeros_like(parameter));
  }
  return state;
}

void update(const adafactor& options, const update_lists& lists,
            double learning_rate) {
  for (std::size_t i = 0; i < lists.parameters.size(); ++i)
    if (lists.parameters[i].numel() > 0)
      update_one(options, lists.parameters[i], lists.gradients[i],
                 lists.state[i], learning_rate);
}

parameter_list fresh_state(const muon&, const at::Tensor& parameter) {
  return {{"momentum_buffer", at::zeros_like(parameter)}};
}

void update(const muon& options, const update_lists& lists,
            double learning_rate) {
  for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
    const auto& [parameter, gradient, momentum] =
      std::tie(lists.parameters[i], lists.gradients[i], lists.state[i][0]);
    momentum.lerp_(gradient, 1 - options.momentum);
    const auto direction = orthogonal(
      options,
      options.nesterov ? gradient.lerp(momentum, options.momentum) : momentum);
    parameter.mul_(1 - learning_rate * options.weight_decay);
    parameter.add_(direction, -learning_rate * scale_of(options, parameter));
  }
}

}  // namespace troupe
