#include "troupe/engine/fused/activation.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "troupe/engine/fused/activation_operators.hpp"

namespace troupe::fused {

namespace {

using torch::autograd::variable_list;

activation kept_activation(const torch::autograd::AutogradContext& context) {
  return static_cast<activation>(context.saved_data.at("which").toInt());
}

struct activation_function : torch::autograd::Function<activation_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, std::int64_t which) {
    context->save_for_backward({x});
    context->saved_data["which"] = which;
    return activate(x, static_cast<activation>(which));
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {
      activate_backward(gradients[0], saved[0], kept_activation(*context)), {}};
  }
};

struct gated_function : torch::autograd::Function<gated_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, const at::Tensor& factor,
                            std::int64_t which) {
    context->save_for_backward({x, factor});
    context->saved_data["which"] = which;
    return activate_gated(x, factor, static_cast<activation>(which));
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto made = activate_gated_backward(gradients[0], saved[0], saved[1],
                                              kept_activation(*context));
    return {made.x, made.factor, {}};
  }
};

at::Tensor activated_by_libtorch(const at::Tensor& x, activation which) {
  if (which == activation::silu)
    return at::silu(x);
  return at::gelu(x, which == activation::gelu ? "none" : "tanh");
}

}  // namespace

at::Tensor activated(const at::Tensor& x, activation which) {
  if (!has_activation_kernel(x))
    return activated_by_libtorch(x, which);
  if (!at::GradMode::is_enabled() || !x.requires_grad())
    return activate(x, which);
  return activation_function::apply(x, static_cast<std::int64_t>(which));
}

at::Tensor gated(const at::Tensor& x, const at::Tensor& factor,
                 activation which) {
  if (!has_activation_kernel(x, factor))
    return activated_by_libtorch(x, which) * factor;
  if (!at::GradMode::is_enabled()
      || !(x.requires_grad() || factor.requires_grad()))
    return activate_gated(x, factor, which);
  return gated_function::apply(x, factor, static_cast<std::int64_t>(which));
}

}  // namespace troupe::fused
