#include "troupe/engine/stage/gradient_norm.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cmath>

namespace troupe {

namespace {

/// Eight partial sums, so that the compiler can use vectors; the order of
/// additions is fixed by the code, not by the machine.
double sum_of_squares(const float* values, std::int64_t count) {
  constexpr int lanes = 8;
  double partial[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int j = 0; j < lanes; ++j) {
      const auto value = static_cast<double>(values[i + j]);
      partial[j] += value * value;
    }
  double sum = 0;
  for (const auto part : partial)
    sum += part;
  for (; i < count; ++i)
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

double sum_of_squares(const at::Tensor& gradient) {
  if (gradient.scalar_type() == at::kFloat && gradient.is_cpu()) {
    const auto dense = gradient.contiguous();
    return sum_of_squares(dense.const_data_ptr<float>(), dense.numel());
  }
  return gradient.to(at::kDouble).square().sum().item<double>();
}

std::vector<double> squares_on_device(const tensor_list& parameters,
                                      rank_device& device) {
  tensor_list gradients;
  for (const auto& parameter : parameters)
    if (parameter.grad().defined())
      gradients.push_back(parameter.grad());
  std::vector<double> squares(parameters.size());
  if (gradients.empty())
    return squares;
  auto& stream = device.compute();
  const auto sums =
    to_host(device.on()->kernels().sums_of_squares(gradients), stream);
  sums.ready->wait();
  const auto* next = sums.tensor.const_data_ptr<double>();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    squares[i] = parameters[i].grad().defined() ? *next++ : 0.0;
  return squares;
}

}  // namespace

std::vector<double> gradient_squares(const tensor_list& parameters,
                                     rank_device* device) {
  const at::NoGradGuard no_grad;
  if (device)
    return squares_on_device(parameters, *device);
  std::vector<double> squares;
  squares.reserve(parameters.size());
  for (const auto& parameter : parameters) {
    const auto& gradient = parameter.grad();
    squares.push_back(gradient.defined() ? sum_of_squares(gradient) : 0.0);
  }
  return squares;
}

double norm_of_squares(const std::vector<double>& squares) {
  double sum = 0;
  for (const auto square : squares)
    sum += square;
  return std::sqrt(sum);
}

double clip_factor(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

void scale_gradients(const tensor_list& parameters, double factor) {
  if (factor == 1)
    return;
  const at::NoGradGuard no_grad;
  tensor_list gradients;
  for (const auto& parameter : parameters)
    if (parameter.grad().defined())
      gradients.push_back(parameter.grad());
  if (!gradients.empty())
    at::_foreach_mul_(gradients, factor);
}

}  // namespace troupe
