#include "troupe/engine/cuda/row_operators.hpp"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include <optional>
#include <tuple>

#include "troupe/base/fail.hpp"
#include "troupe/engine/cuda/check.hpp"
#include "troupe/engine/cuda/launches.hpp"
#include "troupe/engine/cuda/norm_arithmetic.hpp"
#include "troupe/engine/cuda/operands.hpp"
#include "troupe/engine/device/operators.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {
namespace {

std::int64_t rows_of(const at::Tensor& x) {
  return x.numel() / x.size(-1);
}

void require_width(const at::Tensor& x, const at::Tensor& weight) {
  if (x.dim() == 0 || cut_norm_row(x.size(-1)).chunks == 0
      || weight.numel() != x.size(-1))
    fail(error_code::invalid_argument,
         "norms on a GPU take rows of 4 to 8,192 values, in multiples of four, "
         "and weights of as many; x is {} and the weight {}",
         describe(x), describe(weight));
}

void launch_sums(const at::Tensor& matrix, const at::Tensor& sums,
                 std::int64_t rows_per_part, bool adds) {
  column_sums_task task;
  task.values = dense_values_of(matrix);
  task.sums = dense_values_of(sums);
  task.rows = matrix.size(0);
  task.width = matrix.size(1);
  task.rows_per_part = rows_per_part;
  task.adds = adds;
  check(launch_column_sums(task, current_stream(matrix)),
        "launching sums of columns");
}

/// Sums rows in parts, and then these sums.
void sum_rows(const at::Tensor& matrix, const at::Tensor& sums, bool adds) {
  const auto rows = matrix.size(0), per_part = rows_per_sum(rows);
  if (rows <= per_part)
    return launch_sums(matrix, sums, per_part, adds);
  const auto parts =
    floats_like(matrix, {(rows - 1) / per_part + 1, matrix.size(1)});
  launch_sums(matrix, parts, per_part, /*adds=*/false);
  launch_sums(parts, sums, parts.size(0), adds);
}

using three_tensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

three_tensors norm_operator(const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            double epsilon, at::ScalarType type) {
  require_width(x, weight);
  require_one_gpu({x, weight, bias.value_or(at::Tensor())});
  const c10::cuda::CUDAGuard guard{x.device()};
  const bool has_mean = bias && bias->defined();
  auto output = at::empty(x.sizes(), x.options().dtype(type));
  auto mean = has_mean ? floats_like(x, {rows_of(x)}) : at::Tensor();
  auto scale = floats_like(x, {rows_of(x)});
  norm_task task;
  task.rows = rows_of(x);
  task.x = dense_values_of(x);
  task.weight = dense_values_of(weight);
  task.bias = dense_values_of(bias.value_or(at::Tensor()));
  task.output = dense_values_of(output);
  task.means = data_of(mean, task.rows);
  task.scales = data_of(scale, task.rows);
  task.width = x.size(-1);
  task.epsilon = static_cast<float>(epsilon);
  if (task.rows > 0)
    check(launch_norm(task, current_stream(x)), "launching a norm");
  return {std::move(output), std::move(mean), std::move(scale)};
}

/// The kernel's sums over its blocks, in fp32: of the weight's gradient,
/// followed by the bias's.
at::Tensor run_backward(norm_backward_task& task, const at::Tensor& x) {
  const auto parts =
    floats_like(x, {norm_parts(task.rows, task.width), task.part_width()});
  auto sums = floats_like(x, {task.part_width()});
  if (task.rows == 0)
    return sums.zero_();
  task.parts = data_of(parts, parts.numel());
  check(launch_norm_backward(task, current_stream(x)),
        "launching a norm's backward");
  launch_sums(parts, sums, parts.size(0), /*adds=*/false);
  return sums;
}

three_tensors norm_backward_operator(const at::Tensor& gradient,
                                     const at::Tensor& x,
                                     const std::optional<at::Tensor>& mean,
                                     const at::Tensor& scale,
                                     const at::Tensor& weight, bool has_bias,
                                     const std::optional<at::Tensor>& added) {
  require_width(x, weight);
  require_one_gpu({x, gradient, mean.value_or(at::Tensor()), scale, weight,
                   added.value_or(at::Tensor())});
  const c10::cuda::CUDAGuard guard{x.device()};
  auto of_x = at::empty(x.sizes(), x.options());
  norm_backward_task task;
  task.rows = rows_of(x);
  task.gradient = dense_values_of(gradient);
  task.x = dense_values_of(x);
  task.weight = dense_values_of(weight);
  task.added = dense_values_of(added.value_or(at::Tensor()));
  task.input_gradient = dense_values_of(of_x);
  task.means = data_of(mean.value_or(at::Tensor()), task.rows);
  task.scales = data_of(scale, task.rows);
  task.width = x.size(-1);
  task.has_bias = has_bias;
  const auto sums = run_backward(task, x).to(weight.scalar_type());
  return {std::move(of_x), sums.narrow(0, 0, task.width),
          has_bias ? sums.narrow(0, task.width, task.width) : at::Tensor()};
}

void sums_operator(const at::Tensor& sum, const at::Tensor& rows, bool adds) {
  require_one_gpu({rows, sum});
  const c10::cuda::CUDAGuard guard{rows.device()};
  const auto width = rows.dim() > 0 ? rows.size(-1) : 0;
  if (width == 0 || width % 4 != 0 || sum.scalar_type() != at::kFloat
      || sum.dim() != 1 || sum.size(0) != width)
    fail(error_code::invalid_argument,
         "sums of columns on a GPU take rows of a multiple of four values, and "
         "sums in fp32 of as many; the rows are {} and the sums {}",
         describe(rows), describe(sum));
  if (rows.numel() > 0)
    sum_rows(rows.view({-1, width}), sum, adds);
  else if (!adds)
    sum.zero_();
}

void define_for_rows(torch::Library& library) {
  constexpr auto key = c10::DispatchKey::CUDA;
  add_operator(
    library, "gpu_norm",
    "gpu_norm(Tensor x, Tensor weight, Tensor? bias, float epsilon, ScalarType "
    "dtype) -> (Tensor, Tensor, Tensor)",
    norm_operator, key);
  add_operator(
    library, "gpu_norm_backward",
    "gpu_norm_backward(Tensor gradient, Tensor x, Tensor? mean, Tensor scale, "
    "Tensor weight, bool has_bias, Tensor? added) -> (Tensor, Tensor, Tensor)",
    norm_backward_operator, key);
  add_operator(library, "gpu_sum_columns",
               "gpu_sum_columns(Tensor(a!) sum, Tensor rows, bool adds) -> ()",
               sums_operator, key);
}

}  // namespace

void register_row_operators() {
  define_operators("troupe::gpu_norm", define_for_rows);
}

}  // namespace troupe
