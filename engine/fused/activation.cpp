#include "troupe/engine/fused/activation.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "troupe/engine/fused/activation_operators.hpp"

namespace troupe::fused {

namespace {

using torch::autograd::variable_list;

template <activation Which>
struct activation_function
  : torch::autograd::Function<activation_function<Which>> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x) {
    context->save_for_backward({x});
    return activate(x, Which);
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {activate_backward(gradients[0], saved[0], Which)};
  }
};

template <activation Which>
struct gated_function : torch::autograd::Function<gated_function<Which>> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, const at::Tensor& factor) {
    context->save_for_backward({x, factor});
    return activate_gated(x, factor, Which);
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    auto result =
      activate_gated_backward(gradients[0], saved[0], saved[1], Which);
    return {std::move(result.x), std::move(result.factor)};
  }
};

/// The function of that activation, of these tensors.
template <template <activation> class Function, class... Tensors>
at::Tensor apply(activation which, const Tensors&... tensors) {
  switch (which) {
    case activation::gelu:
      return Function<activation::gelu>::apply(tensors...);
    case activation::gelu_tanh:
      return Function<activation::gelu_tanh>::apply(tensors...);
    case activation::silu:
      break;
  }
  return Function<activation::silu>::apply(tensors...);
}

at::Tensor activated_by_libtorch(const at::Tensor& x, activation which) {
  if (which == activation::silu)
    return at::silu(x);
  return at::gelu(x, which == activation::gelu ? "none" : "tanh");
}

}  // namespace

at::Tensor activated(const at::Tensor& x, activation which) {
  if (!has_activation_kernel(x, which))
    return activated_by_libtorch(x, which);
  if (!at::GradMode::is_enabled() || !x.requires_grad())
    return activate(x, which);
  return apply<activation_function>(which, x);
}

at::Tensor gated(const at::Tensor& x, const at::Tensor& factor,
                 activation which) {
  if (!has_gated_kernel(x, factor, which))
    return activated_by_libtorch(x, which) * factor;
  if (!at::GradMode::is_enabled()
      || !(x.requires_grad() || factor.requires_grad()))
    return activate_gated(x, factor, which);
  return apply<gated_function>(which, x, factor);
}

}  // namespace troupe::fused
