#include "troupe/engine/stage/update/gradient_norm.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>

#include <cmath>

#include "troupe/engine/stage/update/gradient_lists.hpp"

namespace troupe {

namespace {

/// Eight partial results, so that the compiler can use vectors; the order of
/// additions is fixed by the code, not by the machine.
template <norm_type Type, class Value>
double joined_powers(const Value* values, std::int64_t count) {
  using power = norm_power<Type>;
  constexpr int lanes = 8;
  double partial[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int j = 0; j < lanes; ++j)
      partial[j] = power::joined(partial[j],
                                 power::of(static_cast<double>(values[i + j])));
  double all = 0;
  for (const auto part : partial)
    all = power::joined(all, part);
  for (; i < count; ++i)
    all = power::joined(all, power::of(static_cast<double>(values[i])));
  return all;
}

template <norm_type Type>
double power_of(const at::Tensor& gradient) {
  if (gradient.scalar_type() == at::kFloat) {
    const auto dense = gradient.contiguous();
    return joined_powers<Type>(dense.const_data_ptr<float>(), dense.numel());
  }
  const auto dense = gradient.to(at::kDouble).contiguous();
  return joined_powers<Type>(dense.const_data_ptr<double>(), dense.numel());
}

/// Calls the instance of a template for the type.
template <class Work>
auto with_type(norm_type type, const Work& work) {
  switch (type) {
    case norm_type::infinity:
      return work.template operator()<norm_type::infinity>();
    case norm_type::one:
      return work.template operator()<norm_type::one>();
    case norm_type::two:
      return work.template operator()<norm_type::two>();
    case norm_type::three:
      break;
  }
  return work.template operator()<norm_type::three>();
}

std::vector<double> powers_on_device(const tensor_list& parameters,
                                     norm_type type, rank_device& device) {
  tensor_list gradients;
  for (const auto& parameter : parameters)
    if (parameter.grad().defined())
      gradients.push_back(parameter.grad());
  std::vector<double> powers(parameters.size());
  if (gradients.empty())
    return powers;
  const auto sums = read_on_host(
    device.hardware()->kernels().norm_powers(gradients, type), &device);
  const auto* next = sums.const_data_ptr<double>();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    powers[i] = parameters[i].grad().defined() ? *next++ : 0.0;
  return powers;
}

}  // namespace

std::vector<double> gradient_powers(const tensor_list& parameters,
                                    norm_type type, rank_device* device) {
  const at::NoGradGuard no_grad;
  if (device)
    return powers_on_device(parameters, type, *device);
  std::vector<double> powers;
  powers.reserve(parameters.size());
  for (const auto& parameter : parameters) {
    const auto& gradient = parameter.grad();
    powers.push_back(
      gradient.defined() ? with_type(
        type, [&]<norm_type Type> { return power_of<Type>(gradient); })
                         : 0.0);
  }
  return powers;
}

double norm_of(const std::vector<double>& powers, norm_type type) {
  const auto all = with_type(type, [&]<norm_type Type> {
    double joined = 0;
    for (const auto power : powers)
      joined = norm_power<Type>::joined(joined, power);
    return joined;
  });
  return type == norm_type::two     ? std::sqrt(all)
         : type == norm_type::three ? std::cbrt(all)
                                    : all;
}

std::ptrdiff_t last_not_finite(const std::vector<double>& powers) {
  auto last = std::ssize(powers) - 1;
  while (last >= 0 && std::isfinite(powers[static_cast<std::size_t>(last)]))
    --last;
  return last;
}

double clip_factor(double norm, double max_norm) {
  if (max_norm == 0)
    return 1;
  const auto factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;  // a NaN stays
}

void scale_gradients(const tensor_list& parameters, double factor) {
  if (factor == 1)
    return;
  const at::NoGradGuard no_grad;
  widen_gradients(parameters);
  tensor_list gradients;
  for (const auto& parameter : parameters)
    if (parameter.grad().defined())
      gradients.push_back(parameter.grad());
  if (!gradients.empty())
    at::_foreach_mul_(gradients, factor);
}

}  // namespace troupe
