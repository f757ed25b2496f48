#include "troupe/engine/fused/cross_entropy.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <tuple>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/fused/gpu_functions.hpp"
#include "troupe/engine/fused/layer_tensors.hpp"
#include "troupe/engine/fused/operator_of.hpp"

namespace troupe::fused {

namespace {

void require_shapes(const at::Tensor& logits, const at::Tensor& targets) {
  if (logits.dim() != 2 || targets.dim() != 1
      || logits.size(0) != targets.size(0)
      || targets.scalar_type() != at::kLong)
    fail(error_code::invalid_argument,
         "cross entropy takes logits [rows, classes] and targets [rows] of "
         "int64, not {} and {}",
         describe(logits), describe(targets));
}

void require_classes(const at::Tensor& targets, std::int64_t classes,
                     std::int64_t ignored) {
  const auto* first = targets.const_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < targets.numel(); ++row)
    if (first[row] != ignored && (first[row] < 0 || first[row] >= classes))
      fail(error_code::invalid_argument,
           "the target {} is none of the {} classes", first[row], classes);
}

template <class T>
cross_entropy_call<T> call_of(const at::Tensor& logits,
                              const at::Tensor& targets,
                              const at::Tensor& norms, std::int64_t ignored) {
  cross_entropy_call<T> all{};
  all.logits = data_of<T>(logits);
  all.targets = targets.const_data_ptr<std::int64_t>();
  all.norms = data_of<float>(norms);
  all.width = logits.size(1);
  all.ignored = ignored;
  return all;
}

using two_tensors = std::tuple<at::Tensor, at::Tensor>;

two_tensors losses_operator(const at::Tensor& logits, const at::Tensor& targets,
                            std::int64_t ignored) {
  const auto floats = logits.options().dtype(at::kFloat);
  auto losses = at::empty({logits.size(0)}, floats);
  auto norms = at::empty({logits.size(0), 2}, floats);
  with_type_of(logits, [&](auto type) {
    using T = decltype(type);
    auto all = call_of<T>(logits, targets, norms, ignored);
    all.losses = data_of<float>(losses);
    in_parallel(logits.size(0), logits.size(1),
                [&](std::int64_t first, std::int64_t end) {
                  kernels_for<T>().losses(all, first, end);
                });
  });
  return {std::move(losses), std::move(norms)};
}

void gradient_operator(const at::Tensor& logits, const at::Tensor& targets,
                       const at::Tensor& norms, const at::Tensor& scale,
                       std::int64_t ignored) {
  with_type_of(logits, [&](auto type) {
    using T = decltype(type);
    auto all = call_of<T>(logits, targets, norms, ignored);
    all.scale = *scale.const_data_ptr<float>();
    in_parallel(logits.size(0), logits.size(1),
                [&](std::int64_t first, std::int64_t end) {
                  kernels_for<T>().loss_gradients(all, first, end);
                });
  });
}

void define_losses(torch::Library& library) {
  add_operator(library, "cross_entropy",
               "cross_entropy(Tensor logits, Tensor targets, int ignored) -> "
               "(Tensor, Tensor)",
               losses_operator);
  add_operator(library, "cross_entropy_gradient_",
               "cross_entropy_gradient_(Tensor(a!) logits, Tensor targets, "
               "Tensor norms, Tensor scale, int ignored) -> ()",
               gradient_operator);
}

row_losses losses_by_libtorch(const at::Tensor& logits,
                              const at::Tensor& targets, std::int64_t ignored) {
  const auto wide = logits.to(at::kFloat);
  const auto most = wide.amax(1, /*keepdim=*/true);
  const auto logarithm = wide.sub(most).exp_().sum(1, /*keepdim=*/true).log_();
  const auto counts = targets.ne(ignored).unsqueeze(1);
  const auto classes = at::where(counts, targets.unsqueeze(1), 0);
  const auto losses = logarithm - (wide.gather(1, classes) - most);
  return {at::where(counts, losses, 0.0F).sum(), at::cat({most, logarithm}, 1)};
}

void gradient_by_libtorch(const at::Tensor& logits, const at::Tensor& targets,
                          const at::Tensor& norms, const at::Tensor& scale,
                          std::int64_t ignored) {
  auto gradient = logits.to(at::kFloat)
                    .sub(norms.narrow(1, 0, 1))
                    .sub_(norms.narrow(1, 1, 1))
                    .exp_();
  const auto counts = targets.ne(ignored).unsqueeze(1);
  const auto classes = at::where(counts, targets.unsqueeze(1), 0);
  gradient.scatter_add_(1, classes, counts.to(at::kFloat).neg());
  logits.copy_(gradient.mul_(scale).masked_fill_(counts.logical_not(), 0));
}

}  // namespace

row_losses cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                         std::int64_t ignored) {
  const at::NoGradGuard no_grad;
  require_shapes(logits, targets);
  const auto rows = logits.contiguous();
  const auto classes = targets.contiguous();
  if (has_gpu_cross_entropy(rows))
    return cross_entropy_on_gpu(rows, classes, ignored);
  if (rows.is_cpu())
    require_classes(classes, rows.size(1), ignored);
  if (!has_kernels(rows))
    return losses_by_libtorch(rows, classes, ignored);
  static const auto forward = operator_of<decltype(losses_operator)>(
    "troupe::cross_entropy", define_losses);
  auto [losses, norms] = forward.call(rows, classes, ignored);
  return {losses.sum(), std::move(norms)};
}

void cross_entropy_gradient_(const at::Tensor& logits,
                             const at::Tensor& targets, const at::Tensor& norms,
                             const at::Tensor& scale, std::int64_t ignored) {
  const at::NoGradGuard no_grad;
  require_shapes(logits, targets);
  if (has_gpu_cross_entropy(logits))
    return cross_entropy_gradient_on_gpu(logits, targets.contiguous(), norms,
                                         scale, ignored);
  if (!has_kernels(logits) || !logits.is_contiguous())
    return gradient_by_libtorch(logits, targets, norms, scale, ignored);
  static const auto gradient = operator_of<decltype(gradient_operator)>(
    "troupe::cross_entropy_gradient_", define_losses);
  gradient.call(logits, targets.contiguous(), norms, scale, ignored);
}

}  // namespace troupe::fused
