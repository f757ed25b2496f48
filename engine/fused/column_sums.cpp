#include "troupe/engine/fused/column_sums.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/SmallVector.h>

#include "troupe/engine/fused/gpu_functions.hpp"
#include "troupe/engine/fused/layer_tensors.hpp"
#include "troupe/engine/fused/operator_of.hpp"

namespace troupe::fused {

namespace {

/// Sets or adds to sum, fp32 [width], the sum of rows [count, width], whose
/// elements are adjacent.
void sum_rows_operator(at::Tensor sum, const at::Tensor& rows, bool adds) {
  const auto width = rows.size(1);
  auto* to = sum.data_ptr<float>();
  c10::SmallVector<float, 512> scratch(adds ? static_cast<std::size_t>(width)
                                            : 0);
  with_type_of(rows, [&](auto type) {
    using T = decltype(type);
    sum_rows(data_of<const T>(rows), rows.size(0), width, rows.stride(0),
             adds ? scratch.data() : to);
  });
  for (std::size_t i = 0; i < scratch.size(); ++i)
    to[i] += scratch[i];
}

void define_sums(torch::Library& library) {
  add_operator(library, "sum_rows",
               "sum_rows(Tensor(a!) sum, Tensor rows, bool adds) -> ()",
               sum_rows_operator);
}

bool sums_by_kernel(const at::Tensor& sum, const at::Tensor& rows,
                    at::ScalarType type) {
  if (!has_kernels(rows))
    return false;
  return sum.defined() ? sum.is_cpu() && sum.scalar_type() == at::kFloat
                           && sum.is_contiguous() && sum.numel() == rows.size(1)
                       : type == at::kFloat;
}

}  // namespace

void add_column_sums(at::Tensor& sum, const at::Tensor& rows,
                     at::ScalarType type) {
  const at::NoGradGuard no_grad;
  auto matrix = rows.dim() == 2 ? rows : rows.reshape({-1, rows.size(-1)});
  const bool adds = sum.defined();
  if ((adds || type == at::kFloat) && has_gpu_column_sums(sum, matrix)) {
    if (!adds)
      sum = at::empty({matrix.size(1)}, matrix.options().dtype(type));
    return sum_columns_on_gpu(sum, matrix, adds);
  }
  if (!sums_by_kernel(sum, matrix, type)) {
    if (adds)
      sum.add_(matrix.sum(0, false, sum.scalar_type()));
    else
      sum = matrix.sum(0, false, type);
    return;
  }
  if (matrix.size(1) > 1 && matrix.stride(1) != 1)
    matrix = matrix.contiguous();
  if (!adds)
    sum = at::empty({matrix.size(1)}, matrix.options().dtype(type));
  static const auto sum_rows =
    operator_of<decltype(sum_rows_operator)>("troupe::sum_rows", define_sums);
  sum_rows.call(sum, matrix, adds);
}

}  // namespace troupe::fused
