#include "troupe/engine/fused/column_sums.hpp"

#include <ATen/core/grad_mode.h>

namespace troupe::fused {

void add_column_sums(at::Tensor& sum, const at::Tensor& rows,
                     at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const auto matrix = rows.reshape({-1, rows.size(-1)});
  if (sum.defined())
    sum.add_(matrix.sum(0, false, sum.scalar_type()));
  else
    sum = matrix.sum(0, false, type);
}

}  // namespace troupe::fused
