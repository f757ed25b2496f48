#include "troupe/engine/models/layers/layer_functions.hpp"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <optional>

#include "troupe/engine/device/matrix_product.hpp"
#include "troupe/engine/fused/column_sums.hpp"
#include "troupe/engine/fused/gpu_functions.hpp"
#include "troupe/engine/fused/operator_of.hpp"
#include "troupe/engine/stage/module/weight_gradients.hpp"
#include "troupe/engine/stage/parameters/weight_casts.hpp"

namespace troupe {

at::Tensor linear_forward(const at::Tensor& x, const linear_parameters& p) {
  const auto type = x.scalar_type();
  const auto factor = cast_of(p.weight, type);
  return linear_product(
    x, p.transposed ? factor.t() : factor,
    p.bias.defined() ? std::optional(cast_of(p.bias, type)) : std::nullopt);
}

at::Tensor linear_backward(const at::Tensor& rows, const at::Tensor& weight,
                           bool transposed) {
  return matrix_product(rows, transposed ? weight.t() : weight);
}

void add_linear_gradients(const linear_parameters& p, const at::Tensor& x,
                          const at::Tensor& rows) {
  const auto inputs = x.reshape({-1, x.size(-1)});
  const auto& first = p.transposed ? inputs : rows;
  const auto& second = p.transposed ? rows : inputs;
  add_matrix_product(p.weight.mutable_grad(), first.t(), second,
                     p.weight.scalar_type());
  if (p.bias.defined())
    fused::add_column_sums(p.bias.mutable_grad(), rows, p.bias.scalar_type());
}

namespace {

bool is_dense(const at::Tensor& x, at::ScalarType type) {
  return x.device().is_cpu() && x.layout() == at::kStrided
         && x.scalar_type() == type && x.is_contiguous();
}

/// sum[ids[i]] += rows[i], each thread some of the columns.
void add_rows_operator(at::Tensor sum, const at::Tensor& ids,
                       const at::Tensor& rows, std::int64_t padding) {
  const auto width = sum.size(1), count = ids.numel();
  const auto* id = ids.const_data_ptr<std::int64_t>();
  const auto* from = rows.const_data_ptr<float>();
  auto* to = sum.data_ptr<float>();
  const auto columns = std::max<std::int64_t>((1 << 15) / count, 16);
  at::parallel_for(0, width, columns,
                   [&](std::int64_t first, std::int64_t end) {
                     for (std::int64_t i = 0; i < count; ++i) {
                       if (id[i] == padding)
                         continue;
                       auto* target = to + id[i] * width;
                       const auto* row = from + i * width;
                       for (auto j = first; j < end; ++j)
                         target[j] += row[j];
                     }
                   });
}

void define_add_rows(torch::Library& library) {
  add_operator(library, "add_rows",
               "add_rows(Tensor(a!) sum, Tensor ids, Tensor rows, int "
               "padding) -> ()",
               add_rows_operator);
}

}  // namespace

void add_embedding_gradient(const at::Tensor& weight, const at::Tensor& ids,
                            const at::Tensor& gradient, std::int64_t padding) {
  auto& sum = weight.mutable_grad();
  // In place if all is dense: without a tensor as large as the table.
  if (is_dense(weight, at::kFloat) && is_dense(ids, at::kLong)
      && is_dense(gradient, at::kFloat) && ids.numel() > 0
      && (!sum.defined() || is_dense(sum, at::kFloat))) {
    if (!sum.defined())
      sum = at::zeros_like(weight);
    static const auto add_rows =
      fused::operator_of<decltype(add_rows_operator)>("troupe::add_rows",
                                                      define_add_rows);
    add_rows.call(sum, ids, gradient, padding);
  } else {
    accumulate_gradient(weight, at::embedding_dense_backward(
                                  gradient, ids, weight.size(0), padding,
                                  /*scale_grad_by_freq=*/false));
  }
}

namespace {

/// LibTorch's autocast on GPUs gives norms of other dtypes in fp32.
bool normalizes_on_gpu(const at::Tensor& x, const norm_parameters& p) {
  return fused::has_gpu_norm(x, p.weight, p.bias)
         && (x.scalar_type() == at::kFloat
             || !at::autocast::is_autocast_enabled(at::kCUDA));
}

}  // namespace

bool normalizes(const at::Tensor& x, const norm_parameters& p) {
  const auto type = p.weight.scalar_type();
  return (x.is_cpu() || normalizes_on_gpu(x, p)) && x.scalar_type() == type
         && x.numel() > 0 && x.dim() > 0 && x.size(-1) == p.weight.numel()
         && (!p.bias.defined() || p.bias.scalar_type() == type);
}

fused::normalized norm_forward(const at::Tensor& x, const norm_parameters& p,
                               std::optional<at::ScalarType> type) {
  return fused::normalize(x, p.weight, p.bias, p.epsilon, type);
}

void add_norm_gradients(const norm_parameters& p,
                        const fused::norm_gradients& gradients) {
  if (p.weight.requires_grad())
    accumulate_gradient(p.weight, gradients.weight);
  if (p.bias.defined() && p.bias.requires_grad())
    accumulate_gradient(p.bias, gradients.bias);
}

}  // namespace troupe
