#include "troupe/engine/fused/activation_operators.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

namespace troupe::fused {

namespace {

const char* approximation_of(activation which) {
  return which == activation::gelu ? "none" : "tanh";
}

at::Tensor activate_by_libtorch(const at::Tensor& x, activation which) {
  return which == activation::silu ? at::silu(x)
                                   : at::gelu(x, approximation_of(which));
}

at::Tensor backward_by_libtorch(const at::Tensor& gradient, const at::Tensor& x,
                                activation which) {
  return which == activation::silu
           ? at::silu_backward(gradient, x)
           : at::gelu_backward(gradient, x, approximation_of(which));
}

}  // namespace

at::Tensor activate(const at::Tensor& x, activation which) {
  const at::NoGradGuard no_grad;
  return activate_by_libtorch(x, which).contiguous();
}

at::Tensor activate_backward(const at::Tensor& gradient, const at::Tensor& x,
                             activation which) {
  const at::NoGradGuard no_grad;
  return backward_by_libtorch(gradient, x, which).contiguous();
}

at::Tensor activate_gated(const at::Tensor& x, const at::Tensor& factor,
                          activation which) {
  const at::NoGradGuard no_grad;
  return activate_by_libtorch(x, which).mul_(factor).contiguous();
}

gated_gradients activate_gated_backward(const at::Tensor& gradient,
                                        const at::Tensor& x,
                                        const at::Tensor& factor,
                                        activation which) {
  const at::NoGradGuard no_grad;
  return {
    backward_by_libtorch(gradient * factor, x, which).contiguous(),
    (gradient * activate_by_libtorch(x, which)).contiguous(),
  };
}

}  // namespace troupe::fused
