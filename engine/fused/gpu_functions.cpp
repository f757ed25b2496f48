#include "troupe/engine/fused/gpu_functions.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <tuple>

namespace troupe::fused {

namespace {

using three_tensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using optional_tensor = std::optional<at::Tensor>;
using norm_op = three_tensors(const at::Tensor& x, const at::Tensor& weight,
                              const optional_tensor& bias, double epsilon,
                              at::ScalarType type);
using norm_backward_op = three_tensors(const at::Tensor& gradient,
                                       const at::Tensor& x,
                                       const optional_tensor& mean,
                                       const at::Tensor& scale,
                                       const at::Tensor& weight, bool has_bias,
                                       const optional_tensor& added);
using gated_op = at::Tensor(const at::Tensor& x, const at::Tensor& factor,
                            std::int64_t which);
using gated_backward_op = std::tuple<at::Tensor, at::Tensor>(
  const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& factor,
  std::int64_t which);
using rotate_op = at::Tensor(const at::Tensor& x, const at::Tensor& cosines,
                             const at::Tensor& sines, bool inverse);
using cross_entropy_op = std::tuple<at::Tensor, at::Tensor>(
  const at::Tensor& logits, const at::Tensor& targets, std::int64_t ignored);
using cross_entropy_gradient_op = void(const at::Tensor& logits,
                                       const at::Tensor& targets,
                                       const at::Tensor& norms,
                                       const at::Tensor& scale,
                                       std::int64_t ignored);
using sum_columns_op = void(const at::Tensor& sum, const at::Tensor& rows,
                            bool adds);

template <class Op>
c10::TypedOperatorHandle<Op> loaded_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Op>();
}

/// What the library has defined when it was loaded.
struct gpu_operators {
  c10::TypedOperatorHandle<norm_op> norm =
    loaded_operator<norm_op>("troupe::gpu_norm");
  c10::TypedOperatorHandle<norm_backward_op> norm_backward =
    loaded_operator<norm_backward_op>("troupe::gpu_norm_backward");
  c10::TypedOperatorHandle<sum_columns_op> sum_columns =
    loaded_operator<sum_columns_op>("troupe::gpu_sum_columns");
  c10::TypedOperatorHandle<gated_op> gated =
    loaded_operator<gated_op>("troupe::gpu_gated");
  c10::TypedOperatorHandle<gated_backward_op> gated_backward =
    loaded_operator<gated_backward_op>("troupe::gpu_gated_backward");
  c10::TypedOperatorHandle<cross_entropy_op> cross_entropy =
    loaded_operator<cross_entropy_op>("troupe::gpu_cross_entropy");
  c10::TypedOperatorHandle<cross_entropy_gradient_op> cross_entropy_gradient =
    loaded_operator<cross_entropy_gradient_op>(
      "troupe::gpu_cross_entropy_gradient_");
  c10::TypedOperatorHandle<rotate_op> rotate =
    loaded_operator<rotate_op>("troupe::gpu_rotate");
};

const gpu_operators& operators() {
  static const gpu_operators all;
  return all;
}

bool is_loaded() {
  static const bool loaded = c10::Dispatcher::singleton()
                               .findSchema({"troupe::gpu_norm", ""})
                               .has_value();
  return loaded;
}

bool has_type(const at::Tensor& x) {
  const auto type = x.scalar_type();
  return x.is_cuda() && x.layout() == at::kStrided && is_loaded()
         && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
}

/// Whether it has rows of a multiple of four values, without gaps.
bool is_taken(const at::Tensor& x) {
  return has_type(x) && x.is_contiguous() && x.dim() > 0 && x.size(-1) > 0
         && x.size(-1) % 4 == 0;
}

/// Whether it is a vector for each row of x.
bool is_vector_for(const at::Tensor& parameter, const at::Tensor& x) {
  return is_taken(parameter) && parameter.dim() == 1
         && parameter.numel() == x.size(-1) && parameter.device() == x.device();
}

bool begins_well(const at::Tensor& x) {
  const auto address = reinterpret_cast<std::uintptr_t>(x.const_data_ptr());
  return address % static_cast<std::uintptr_t>(4 * x.element_size()) == 0;
}

at::Tensor copied(const at::Tensor& x) {
  return x.clone(at::MemoryFormat::Contiguous);
}

/// Views may begin where kernels can't read; a copy begins where memory is
/// allocated. So the choice between a kernel and LibTorch's operators, and with
/// it the bits, don't depend on where a tensor is.
at::Tensor dense(const at::Tensor& x) {
  return x.is_contiguous() && begins_well(x) ? x : copied(x);
}

optional_tensor optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? optional_tensor(dense(tensor)) : std::nullopt;
}

}  // namespace

bool has_gpu_norm(const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
  return is_taken(x) && x.size(-1) <= 8192 && is_vector_for(weight, x)
         && (!bias.defined() || is_vector_for(bias, x));
}

normalized norm_on_gpu(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, double epsilon,
                       at::ScalarType type) {
  auto [output, mean, scale] = operators().norm.call(
    dense(x), dense(weight), optional_of(bias), epsilon, type);
  return {std::move(output), std::move(mean), std::move(scale)};
}

norm_gradients norm_backward_on_gpu(const at::Tensor& gradient,
                                    const at::Tensor& x, const normalized& of,
                                    const at::Tensor& weight, bool has_bias,
                                    const at::Tensor& added) {
  auto [of_x, of_weight, of_bias] = operators().norm_backward.call(
    dense(gradient), dense(x), optional_of(of.mean), of.scale, dense(weight),
    has_bias, optional_of(added));
  return {std::move(of_x), std::move(of_weight), std::move(of_bias)};
}

bool has_gpu_column_sums(const at::Tensor& sum, const at::Tensor& rows) {
  return is_taken(rows)
         && (!sum.defined()
             || (sum.scalar_type() == at::kFloat && is_vector_for(sum, rows)));
}

void sum_columns_on_gpu(const at::Tensor& sum, const at::Tensor& rows,
                        bool adds) {
  if (begins_well(sum))
    return operators().sum_columns.call(sum, dense(rows), adds);
  const auto result = copied(sum);
  operators().sum_columns.call(result, dense(rows), adds);
  sum.copy_(result);
}

bool has_gpu_activations(const at::Tensor& x) {
  return has_type(x) && x.is_contiguous() && x.numel() % 4 == 0;
}

at::Tensor gated_on_gpu(const at::Tensor& x, const at::Tensor& factor,
                        activation which) {
  return operators().gated.call(dense(x), dense(factor),
                                static_cast<std::int64_t>(which));
}

gated_gradients gated_backward_on_gpu(const at::Tensor& gradient,
                                      const at::Tensor& x,
                                      const at::Tensor& factor,
                                      activation which) {
  auto [of_x, of_factor] = operators().gated_backward.call(
    dense(gradient), dense(x), dense(factor), static_cast<std::int64_t>(which));
  return {std::move(of_x), std::move(of_factor)};
}

bool has_gpu_rotation(const at::Tensor& x, std::int64_t pairs) {
  return has_type(x) && x.size(3) % 4 == 0 && pairs % 4 == 0;
}

at::Tensor rotate_on_gpu(const at::Tensor& x, const at::Tensor& cosines,
                         const at::Tensor& sines, bool inverse) {
  const std::array strides{x.stride(0), x.stride(1), x.stride(2)};
  const bool reads =
    x.stride(3) == 1 && begins_well(x)
    && std::ranges::all_of(strides, [](auto n) { return n % 4 == 0; });
  return operators().rotate.call(reads ? x : copied(x), dense(cosines),
                                 dense(sines), inverse);
}

bool has_gpu_cross_entropy(const at::Tensor& logits) {
  return logits.dim() == 2 && is_taken(logits);
}

row_losses cross_entropy_on_gpu(const at::Tensor& logits,
                                const at::Tensor& targets,
                                std::int64_t ignored) {
  auto [losses, norms] =
    operators().cross_entropy.call(dense(logits), targets, ignored);
  return {losses.sum(), std::move(norms)};
}

void cross_entropy_gradient_on_gpu(const at::Tensor& logits,
                                   const at::Tensor& targets,
                                   const at::Tensor& norms,
                                   const at::Tensor& scale,
                                   std::int64_t ignored) {
  const auto overwritten = dense(logits);
  operators().cross_entropy_gradient.call(overwritten, targets, norms, scale,
                                          ignored);
  if (!overwritten.is_same(logits))
    logits.copy_(overwritten);
}

}  // namespace troupe::fused
