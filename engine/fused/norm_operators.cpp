#include "troupe/engine/fused/norm_operators.hpp"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include <optional>
#include <tuple>
#include <utility>

#include "troupe/engine/fused/gpu_functions.hpp"
#include "troupe/engine/fused/layer_tensors.hpp"
#include "troupe/engine/fused/operator_of.hpp"

namespace troupe::fused {

namespace {

at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

normalized normalize_by_libtorch(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, double epsilon) {
  if (bias.defined()) {
    const auto [output, mean, scale] =
      at::native_layer_norm(x, weight.sizes(), weight, bias, epsilon);
    return {output, mean.view({-1}), scale.view({-1})};
  }
  const auto wide = x.to(at::toOpMathType(x.scalar_type()));
  const auto scale = wide.square().mean(-1, true).add_(epsilon).rsqrt_();
  return {
    (wide * scale).mul_(weight).to(x.scalar_type()), {}, scale.view({-1})};
}

norm_gradients normalize_backward_by_libtorch(const at::Tensor& gradient,
                                              const at::Tensor& x,
                                              const normalized& of,
                                              const at::Tensor& weight,
                                              bool has_bias) {
  if (has_bias) {
    auto sizes = x.sizes().vec();
    sizes.back() = 1;
    auto [of_x, of_weight, of_bias] = at::native_layer_norm_backward(
      gradient, x, weight.sizes(), of.mean.view(sizes), of.scale.view(sizes),
      weight, weight, {true, true, true});
    return {of_x, of_weight, of_bias};
  }
  const auto type = at::toOpMathType(x.scalar_type());
  const auto scale = of.scale.view({-1, 1});
  const auto unit = rows_of(x).to(type) * scale;
  const auto after = rows_of(gradient).to(type);
  const auto before = after * weight;
  const auto of_x = before - unit * (before * unit).mean(-1, true);
  return {(of_x * scale).to(x.scalar_type()).view(x.sizes()),
          (after * unit).sum(0).to(weight.scalar_type()),
          {}};
}

/// Whether a kernel reads that one beside x; of its type, or fp32.
bool is_parameter_of(const at::Tensor& parameter, const at::Tensor& x) {
  return parameter.is_cpu() && parameter.dim() == 1
         && parameter.size(0) == x.size(-1)
         && (parameter.scalar_type() == at::kFloat
             || parameter.scalar_type() == x.scalar_type());
}

bool is_as(const at::Tensor& gradient, const at::Tensor& x) {
  return gradient.device() == x.device()
         && gradient.scalar_type() == x.scalar_type()
         && gradient.sizes() == x.sizes();
}

at::Tensor cast(const at::Tensor& x, at::ScalarType type) {
  return !x.defined() || x.scalar_type() == type ? x : x.to(type);
}

at::Tensor wide(const at::Tensor& parameter) {
  return cast(parameter, at::kFloat).contiguous();
}

using three_tensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using maybe_tensor = std::optional<at::Tensor>;

at::Tensor floats(std::int64_t count, const at::Tensor& like) {
  return at::empty({count}, like.options().dtype(at::kFloat));
}

three_tensors normalize_operator(const at::Tensor& x, const at::Tensor& weight,
                                 const maybe_tensor& bias, double epsilon) {
  const auto width = x.size(-1), rows = x.numel() / width;
  auto output = at::empty(x.sizes(), x.options());
  auto mean = bias ? floats(rows, x) : at::Tensor();
  auto scale = floats(rows, x);
  with_type_of(x, [&](auto type) {
    using T = decltype(type);
    const norm_call<T> all{data_of<const T>(x),
                           data_of<const float>(weight),
                           bias ? data_of<const float>(*bias) : nullptr,
                           data_of<T>(output),
                           data_of<float>(mean),
                           data_of<float>(scale),
                           width,
                           static_cast<float>(epsilon)};
    in_parallel(rows, width, [&](std::int64_t first, std::int64_t end) {
      kernels_for<T>().normalize(all, first, end);
    });
  });
  return {std::move(output), std::move(mean), std::move(scale)};
}

template <class T>
void run_norm_backward(const norm_backward_call<T>& all, std::int64_t rows,
                       float* of_weight, float* of_bias) {
  const auto& kernel = kernels_for<T>().normalize_backward;
  if (rows <= block_rows) {
    kernel(all, 0, rows, of_weight, of_bias);
    return;
  }
  const auto blocks = (rows + block_rows - 1) / block_rows, width = all.width;
  const std::unique_ptr<float[]> sums(
    new float[static_cast<std::size_t>(2 * blocks * width)]);
  auto *weights = sums.get(), *biases = weights + blocks * width;
  for_each_block(rows, width, [&](auto block, auto first, auto end) {
    kernel(all, first, end, weights + block * width, biases + block * width);
  });
  sum_rows<float>(weights, blocks, width, width, of_weight);
  if (of_bias)
    sum_rows<float>(biases, blocks, width, width, of_bias);
}

three_tensors normalize_backward_operator(const at::Tensor& gradient,
                                          const at::Tensor& x,
                                          const maybe_tensor& mean,
                                          const at::Tensor& scale,
                                          const at::Tensor& weight) {
  const auto width = x.size(-1);
  auto of_x = at::empty(x.sizes(), x.options());
  auto of_weight = floats(width, x);
  auto of_bias = mean ? floats(width, x) : at::Tensor();
  with_type_of(x, [&](auto type) {
    using T = decltype(type);
    run_norm_backward<T>(
      {data_of<const T>(gradient), data_of<const T>(x),
       mean ? data_of<const float>(*mean) : nullptr,
       data_of<const float>(scale), data_of<const float>(weight),
       data_of<T>(of_x), width},
      x.numel() / width, data_of<float>(of_weight), data_of<float>(of_bias));
  });
  return {std::move(of_x), std::move(of_weight), std::move(of_bias)};
}

void define_norms(torch::Library& library) {
  add_operator(library, "normalize",
               "normalize(Tensor x, Tensor weight, Tensor? bias, float "
               "epsilon) -> (Tensor, Tensor, Tensor)",
               normalize_operator);
  add_operator(
    library, "normalize_backward",
    "normalize_backward(Tensor gradient, Tensor x, Tensor? mean, Tensor scale, "
    "Tensor weight) -> (Tensor, Tensor, Tensor)",
    normalize_backward_operator);
}

maybe_tensor if_defined(const at::Tensor& x) {
  return x.defined() ? maybe_tensor(x.contiguous()) : std::nullopt;
}

}  // namespace

bool has_norm_kernel(const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) {
  return (has_kernels(x) && x.dim() > 0 && is_parameter_of(weight, x)
          && (!bias.defined() || is_parameter_of(bias, x)))
         || has_gpu_norm(x, weight, bias);
}

namespace {

normalized normalize_as_x(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, double epsilon) {
  if (!has_norm_kernel(x, weight, bias))
    return normalize_by_libtorch(x, weight, bias, epsilon);
  static const auto forward = operator_of<decltype(normalize_operator)>(
    "troupe::normalize", define_norms);
  auto [output, mean, scale] = forward.call(
    x.contiguous(), wide(weight),
    bias.defined() ? maybe_tensor(wide(bias)) : std::nullopt, epsilon);
  return {std::move(output), std::move(mean), std::move(scale)};
}

norm_gradients normalize_backward_by_kernel(const at::Tensor& gradient,
                                            const at::Tensor& x,
                                            const normalized& of,
                                            const at::Tensor& weight,
                                            bool has_bias) {
  static const auto backward =
    operator_of<decltype(normalize_backward_operator)>(
      "troupe::normalize_backward", define_norms);
  auto [of_x, of_weight, of_bias] = backward.call(
    gradient.contiguous(), x.contiguous(),
    has_bias ? if_defined(of.mean) : std::nullopt, of.scale, wide(weight));
  const auto type = weight.scalar_type();
  return {std::move(of_x), cast(of_weight, type), cast(of_bias, type)};
}

}  // namespace

normalized normalize(const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias, double epsilon,
                     std::optional<at::ScalarType> type) {
  const at::NoGradGuard no_grad;
  if (has_gpu_norm(x, weight, bias))
    return norm_on_gpu(x, weight, bias, epsilon,
                       type.value_or(x.scalar_type()));
  auto y = normalize_as_x(x, weight, bias, epsilon);
  y.output = cast(y.output, type.value_or(x.scalar_type()));
  return y;
}

norm_gradients normalize_backward(const at::Tensor& after, const at::Tensor& x,
                                  const normalized& of,
                                  const at::Tensor& weight, bool has_bias,
                                  const at::Tensor& added) {
  const at::NoGradGuard no_grad;
  if (has_gpu_norm(x, weight, {}) && of.scale.scalar_type() == at::kFloat)
    return norm_backward_on_gpu(after, x, of, weight, has_bias, added);
  const auto gradient = cast(after, x.scalar_type());
  const bool by_kernel = has_norm_kernel(x, weight, {})
                         && of.scale.scalar_type() == at::kFloat
                         && is_as(gradient, x);
  auto result =
    by_kernel
      ? normalize_backward_by_kernel(gradient, x, of, weight, has_bias)
      : normalize_backward_by_libtorch(gradient, x, of, weight, has_bias);
  // Not in the kernel, where the compiler may round a product and this sum
  // once.
  if (added.defined())
    result.x.add_(added);
  return result;
}

}  // namespace troupe::fused
