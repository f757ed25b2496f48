#include "troupe/engine/fused/activation_operators.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include <tuple>
#include <utility>

#include "troupe/engine/fused/gpu_functions.hpp"
#include "troupe/engine/fused/layer_tensors.hpp"
#include "troupe/engine/fused/operator_of.hpp"

namespace troupe::fused {

namespace {

const char* approximation_of(activation which) {
  return which == activation::gelu ? "none" : "tanh";
}

at::Tensor activate_by_libtorch(const at::Tensor& x, activation which) {
  return which == activation::silu ? at::silu(x)
                                   : at::gelu(x, approximation_of(which));
}

at::Tensor slope_by_libtorch(const at::Tensor& gradient, const at::Tensor& x,
                             activation which) {
  return which == activation::silu
           ? at::silu_backward(gradient, x)
           : at::gelu_backward(gradient, x, approximation_of(which));
}

struct activation_tensors {
  at::Tensor x, factor{}, gradient{}, output{}, of_x{}, of_factor{};
};

/// Runs the function that choose(functions of an activation) is.
template <class Choose>
void run_activation(const activation_tensors& all, std::int64_t which,
                    Choose choose) {
  with_type_of(all.x, [&](auto type) {
    using T = decltype(type);
    const auto work = choose(kernels_for<T>().activations[which]);
    const activation_call<T> call{
      data_of<const T>(all.x),        data_of<const T>(all.factor),
      data_of<const T>(all.gradient), data_of<T>(all.output),
      data_of<T>(all.of_x),           data_of<T>(all.of_factor)};
    in_parallel(all.x.numel(), 1, [&](std::int64_t first, std::int64_t end) {
      work(call, first, end);
    });
  });
}

at::Tensor empty_as(const at::Tensor& x) {
  return at::empty(x.sizes(), x.options());
}

at::Tensor activate_operator(const at::Tensor& x, std::int64_t which) {
  auto output = empty_as(x);
  run_activation({.x = x, .output = output}, which,
                 [](const auto& of) { return of.forward; });
  return output;
}

at::Tensor activate_backward_operator(const at::Tensor& gradient,
                                      const at::Tensor& x, std::int64_t which) {
  auto of_x = empty_as(x);
  run_activation({.x = x, .gradient = gradient, .of_x = of_x}, which,
                 [](const auto& of) { return of.backward; });
  return of_x;
}

at::Tensor activate_gated_operator(const at::Tensor& x,
                                   const at::Tensor& factor,
                                   std::int64_t which) {
  auto output = empty_as(x);
  run_activation({.x = x, .factor = factor, .output = output}, which,
                 [](const auto& of) { return of.gated_forward; });
  return output;
}

std::tuple<at::Tensor, at::Tensor> activate_gated_backward_operator(
  const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& factor,
  std::int64_t which) {
  auto of_x = empty_as(x), of_factor = empty_as(x);
  run_activation({.x = x,
                  .factor = factor,
                  .gradient = gradient,
                  .of_x = of_x,
                  .of_factor = of_factor},
                 which, [](const auto& of) { return of.gated_backward; });
  return {std::move(of_x), std::move(of_factor)};
}

void define_activations(torch::Library& library) {
  add_operator(library, "activate", "activate(Tensor x, int which) -> Tensor",
               activate_operator);
  add_operator(
    library, "activate_backward",
    "activate_backward(Tensor gradient, Tensor x, int which) -> Tensor",
    activate_backward_operator);
  add_operator(library, "activate_gated",
               "activate_gated(Tensor x, Tensor factor, int which) -> Tensor",
               activate_gated_operator);
  add_operator(library, "activate_gated_backward",
               "activate_gated_backward(Tensor gradient, Tensor x, Tensor "
               "factor, int which) -> (Tensor, Tensor)",
               activate_gated_backward_operator);
}

/// oneDNN's GELU takes less time for an element, but more for a call.
bool is_for_onednn(const at::Tensor& x, activation which) {
  constexpr std::int64_t most_elements = 1 << 14;
  return which == activation::gelu && x.numel() > most_elements;
}

/// LibTorch's node of a graph costs less than one of a function of ours: of few
/// elements, as much as SiLU's kernel saves.
bool is_too_small(const at::Tensor& x, activation which) {
  return which == activation::silu && x.numel() < 1 << 12;
}

bool match(const at::Tensor& x, const at::Tensor& other) {
  return other.scalar_type() == x.scalar_type() && other.device() == x.device()
         && other.sizes() == x.sizes();
}

/// For gated activations, and gradients of others.
bool has_large_kernel(const at::Tensor& x, activation which) {
  return has_kernels(x)
         && (x.scalar_type() == at::kFloat || !is_for_onednn(x, which));
}

}  // namespace

bool has_activation_kernel(const at::Tensor& x, activation which) {
  return has_large_kernel(x, which) && !is_too_small(x, which);
}

bool has_gated_kernel(const at::Tensor& x, const at::Tensor& factor,
                      activation which) {
  const bool on_gpu = has_gpu_activations(x) && has_gpu_activations(factor);
  return (on_gpu || has_large_kernel(x, which)) && match(x, factor);
}

at::Tensor activate(const at::Tensor& x, activation which) {
  const at::NoGradGuard no_grad;
  if (!has_activation_kernel(x, which) || is_for_onednn(x, which))
    return activate_by_libtorch(x, which).contiguous();
  static const auto forward = operator_of<decltype(activate_operator)>(
    "troupe::activate", define_activations);
  return forward.call(x.contiguous(), static_cast<int>(which));
}

at::Tensor activate_backward(const at::Tensor& gradient, const at::Tensor& x,
                             activation which) {
  const at::NoGradGuard no_grad;
  if (!has_activation_kernel(x, which) || !match(x, gradient))
    return slope_by_libtorch(gradient, x, which).contiguous();
  static const auto backward =
    operator_of<decltype(activate_backward_operator)>(
      "troupe::activate_backward", define_activations);
  return backward.call(gradient.contiguous(), x.contiguous(),
                       static_cast<int>(which));
}

at::Tensor activate_gated(const at::Tensor& x, const at::Tensor& factor,
                          activation which) {
  const at::NoGradGuard no_grad;
  if (!has_gated_kernel(x, factor, which))
    return activate_by_libtorch(x, which).mul_(factor).contiguous();
  if (x.is_cuda())
    return gated_on_gpu(x, factor, which);
  static const auto gated = operator_of<decltype(activate_gated_operator)>(
    "troupe::activate_gated", define_activations);
  return gated.call(x.contiguous(), factor.contiguous(),
                    static_cast<int>(which));
}

gated_gradients activate_gated_backward(const at::Tensor& gradient,
                                        const at::Tensor& x,
                                        const at::Tensor& factor,
                                        activation which) {
  const at::NoGradGuard no_grad;
  if (!has_gated_kernel(x, factor, which) || !match(x, gradient))
    return {slope_by_libtorch(gradient * factor, x, which).contiguous(),
            (gradient * activate_by_libtorch(x, which)).contiguous()};
  if (x.is_cuda())
    return gated_backward_on_gpu(gradient, x, factor, which);
  static const auto backward =
    operator_of<decltype(activate_gated_backward_operator)>(
      "troupe::activate_gated_backward", define_activations);
  auto [of_x, of_factor] =
    backward.call(gradient.contiguous(), x.contiguous(), factor.contiguous(),
                  static_cast<int>(which));
  return {std::move(of_x), std::move(of_factor)};
}

}  // namespace troupe::fused
