#include "troupe/engine/fused/norm.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "troupe/engine/fused/norm_operators.hpp"

namespace troupe::fused {

namespace {

using torch::autograd::variable_list;

/// Saved: x, weight, mean (undefined for RMSNorm) and scale.
struct norm_function : torch::autograd::Function<norm_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            double epsilon) {
    const auto result =
      normalize(x, weight, bias.value_or(at::Tensor()), epsilon);
    context->save_for_backward({x, weight, result.mean, result.scale});
    return result.output;
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto result =
      normalize_backward(gradients[0], saved[0], {{}, saved[2], saved[3]},
                         saved[1], saved[2].defined());
    return {result.x, result.weight, result.bias, {}};
  }
};

bool requires_gradient(const at::Tensor& x) {
  return x.defined() && x.requires_grad();
}

/// LibTorch's autocast on GPUs computes LayerNorm in fp32, and returns that.
bool is_cast(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() != at::kFloat
         && at::autocast::is_autocast_enabled(at::kCUDA);
}

at::Tensor norm_by_kernel(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, double epsilon) {
  if (!at::GradMode::is_enabled()
      || !(requires_gradient(x) || requires_gradient(weight)
           || requires_gradient(bias)))
    return normalize(x, weight, bias, epsilon).output;
  return norm_function::apply(
    x, weight, bias.defined() ? std::optional(bias) : std::nullopt, epsilon);
}

/// LibTorch's rms_norm warns of a weight of another dtype than x.
at::Tensor rms_norm_by_libtorch(const at::Tensor& x, const at::Tensor& weight,
                                double epsilon) {
  const auto type = (weight.defined() ? weight : x).scalar_type();
  return at::rms_norm(x.to(type), {x.size(-1)}, weight, epsilon)
    .to(x.scalar_type());
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, double epsilon) {
  return weight.defined() && bias.defined() && !is_cast(x)
             && has_norm_kernel(x, weight, bias)
           ? norm_by_kernel(x, weight, bias, epsilon)
           : at::layer_norm(x, {x.size(-1)}, weight, bias, epsilon);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight,
                    double epsilon) {
  return weight.defined() && has_norm_kernel(x, weight, {})
           ? norm_by_kernel(x, weight, {}, epsilon)
           : rms_norm_by_libtorch(x, weight, epsilon);
}

}  // namespace troupe::fused
