#include "troupe/engine/fused/norm_operators.hpp"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

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

norm_gradients backward_by_libtorch(const at::Tensor& gradient,
                                    const at::Tensor& x, const normalized& of,
                                    const at::Tensor& weight, bool has_bias) {
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

}  // namespace

normalized normalize(const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias, double epsilon) {
  const at::NoGradGuard no_grad;
  return normalize_by_libtorch(x, weight, bias, epsilon);
}

norm_gradients normalize_backward(const at::Tensor& gradient,
                                  const at::Tensor& x, const normalized& of,
                                  const at::Tensor& weight, bool has_bias,
                                  const at::Tensor& added) {
  const at::NoGradGuard no_grad;
  auto result = backward_by_libtorch(gradient, x, of, weight, has_bias);
  if (added.defined())
    result.x.add_(added);
  return result;
}

}  // namespace troupe::fused
