#include "troupe/engine/fused/gpu_rows.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
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
using add_column_sums_op = void(const at::Tensor& sum, const at::Tensor& rows);

/// For programs that have loaded the library of GPUs; throws otherwise.
template <class Op>
const c10::TypedOperatorHandle<Op>& operator_of(const char* name) {
  static const auto handle =
    c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Op>();
  return handle;
}

bool is_loaded() {
  static const bool loaded = c10::Dispatcher::singleton()
                               .findSchema({"troupe::gpu_norm", ""})
                               .has_value();
  return loaded;
}

bool is_taken(const at::Tensor& x) {
  const auto type = x.scalar_type();
  const auto address = reinterpret_cast<std::uintptr_t>(x.const_data_ptr());
  return x.is_cuda() && is_loaded()
         && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf)
         && x.dim() > 0 && x.size(-1) > 0 && x.size(-1) % 4 == 0
         && x.is_contiguous()
         && address % static_cast<std::uintptr_t>(4 * x.element_size()) == 0;
}

optional_tensor optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? optional_tensor(tensor) : std::nullopt;
}

/// Gradients may be views; a copy begins where memory is allocated.
at::Tensor dense(const at::Tensor& gradient) {
  return is_taken(gradient) ? gradient
                            : gradient.clone(at::MemoryFormat::Contiguous);
}

}  // namespace

bool has_gpu_norm(const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
  return is_taken(x) && x.size(-1) <= 8192 && is_taken(weight)
         && weight.numel() == x.size(-1) && (!bias.defined() || is_taken(bias));
}

gpu_norm norm_on_gpu(const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias, double epsilon,
                     at::ScalarType type) {
  const auto& op = operator_of<norm_op>("troupe::gpu_norm");
  auto [output, mean, scale] =
    op.call(x, weight, optional_of(bias), epsilon, type);
  return {std::move(output), std::move(mean), std::move(scale)};
}

gpu_norm_gradients norm_backward_on_gpu(const at::Tensor& gradient,
                                        const at::Tensor& x,
                                        const at::Tensor& mean,
                                        const at::Tensor& scale,
                                        const at::Tensor& weight, bool has_bias,
                                        const at::Tensor& added) {
  const auto& op = operator_of<norm_backward_op>("troupe::gpu_norm_backward");
  auto [of_x, of_weight, of_bias] =
    op.call(dense(gradient), x, optional_of(mean), scale, weight, has_bias,
            added.defined() ? optional_tensor(dense(added)) : std::nullopt);
  return {std::move(of_x), std::move(of_weight), std::move(of_bias)};
}

bool has_gpu_column_sums(const at::Tensor& rows) {
  return is_taken(rows);
}

void add_column_sums_on_gpu(const at::Tensor& sum, const at::Tensor& rows) {
  operator_of<add_column_sums_op>("troupe::gpu_add_column_sums")
    .call(sum, rows);
}

}  // namespace troupe::fused
