#include "troupe/engine/cuda/layer_operators.hpp"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <initializer_list>
#include <tuple>

#include "troupe/base/fail.hpp"
#include "troupe/engine/cuda/check.hpp"
#include "troupe/engine/cuda/launches.hpp"
#include "troupe/engine/cuda/operands.hpp"
#include "troupe/engine/device/operators.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {
namespace {

gated_task gated_of(const at::Tensor& x, const at::Tensor& factor,
                    std::int64_t which) {
  if (x.sizes() != factor.sizes() || x.numel() % 4 != 0 || which < 0
      || which > static_cast<std::int64_t>(gpu_activation::silu))
    fail(error_code::invalid_argument,
         "gated activations on a GPU take two tensors of one shape, of a "
         "multiple of four values, not {} and {}",
         describe(x), describe(factor));
  gated_task task;
  task.x = dense_values_of(x);
  task.factor = dense_values_of(factor);
  task.count = x.numel();
  task.activation = static_cast<gpu_activation>(which);
  return task;
}

void launch(const gated_task& task, const at::Tensor& x) {
  if (task.count > 0)
    check(launch_gated(task, current_stream(x)),
          "launching a gated activation");
}

at::Tensor gated_operator(const at::Tensor& x, const at::Tensor& factor,
                          std::int64_t which) {
  require_one_gpu({x, factor});
  const c10::cuda::CUDAGuard guard{x.device()};
  auto task = gated_of(x, factor, which);
  auto output = at::empty(x.sizes(), x.options());
  task.output = dense_values_of(output);
  launch(task, x);
  return output;
}

std::tuple<at::Tensor, at::Tensor> gated_backward_operator(
  const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& factor,
  std::int64_t which) {
  require_one_gpu({x, factor, gradient});
  const c10::cuda::CUDAGuard guard{x.device()};
  auto task = gated_of(x, factor, which);
  auto of_x = at::empty(x.sizes(), x.options());
  auto of_factor = at::empty(factor.sizes(), factor.options());
  task.gradient = dense_values_of(gradient);
  task.of_x = dense_values_of(of_x);
  task.of_factor = dense_values_of(of_factor);
  launch(task, x);
  return {std::move(of_x), std::move(of_factor)};
}

bool are_multiples_of_four(std::initializer_list<std::int64_t> numbers) {
  return std::ranges::all_of(numbers, [](auto each) { return each % 4 == 0; });
}

void require_rotatable(const at::Tensor& x, const at::Tensor& cosines,
                       const at::Tensor& sines) {
  const bool fits =
    x.dim() == 4 && cosines.dim() == 2 && cosines.sizes() == sines.sizes()
    && cosines.scalar_type() == at::kFloat && sines.scalar_type() == at::kFloat
    && cosines.size(0) == x.size(1) && 2 * cosines.size(1) <= x.size(3)
    && x.stride(3) == 1
    && are_multiples_of_four(
      {x.size(3), cosines.size(1), x.stride(0), x.stride(1), x.stride(2)});
  if (!fits)
    fail(error_code::invalid_argument,
         "rotations on a GPU take [rows, positions, heads, size] and angles "
         "[positions, pairs] in fp32, in multiples of four, not {}, {} and {}",
         describe(x), describe(cosines), describe(sines));
}

at::Tensor rotate_operator(const at::Tensor& x, const at::Tensor& cosines,
                           const at::Tensor& sines, bool inverse) {
  require_rotatable(x, cosines, sines);
  require_one_gpu({x, cosines, sines});
  const c10::cuda::CUDAGuard guard{x.device()};
  auto output = at::empty(x.sizes(), x.options());
  rotate_task task;
  task.x = values_of(x);
  task.output = dense_values_of(output);
  task.cosines = dense_values_of(cosines);
  task.sines = dense_values_of(sines);
  task.row_stride = x.stride(0);
  task.position_stride = x.stride(1);
  task.head_stride = x.stride(2);
  task.rows = x.size(0);
  task.positions = static_cast<std::int32_t>(x.size(1));
  task.heads = static_cast<std::int32_t>(x.size(2));
  task.size = static_cast<std::int32_t>(x.size(3));
  task.pairs = static_cast<std::int32_t>(cosines.size(1));
  task.inverse = inverse;
  if (x.numel() > 0)
    check(launch_rotate(task, current_stream(x)), "launching a rotation");
  return output;
}

void require_losses(const at::Tensor& logits, const at::Tensor& targets) {
  if (logits.dim() != 2 || logits.size(1) == 0 || logits.size(1) % 4 != 0
      || targets.scalar_type() != at::kLong || !targets.is_contiguous()
      || targets.numel() != logits.size(0))
    fail(
      error_code::invalid_argument,
      "cross entropy on a GPU takes logits [rows, classes], of a multiple of "
      "four classes, and int64 targets [rows], not {} and {}",
      describe(logits), describe(targets));
}

cross_entropy_task losses_of(const at::Tensor& logits,
                             const at::Tensor& targets, const at::Tensor& norms,
                             std::int64_t ignored) {
  require_losses(logits, targets);
  require_one_gpu({logits, targets, norms});
  cross_entropy_task task;
  task.logits = dense_values_of(logits);
  task.targets = targets.const_data_ptr<std::int64_t>();
  task.norms = data_of(norms, 2 * targets.numel());
  task.rows = logits.size(0);
  task.width = logits.size(1);
  task.ignored = ignored;
  return task;
}

void launch(const cross_entropy_task& task, const at::Tensor& logits) {
  if (task.rows > 0)
    check(launch_cross_entropy(task, current_stream(logits)),
          "launching cross entropy");
}

std::tuple<at::Tensor, at::Tensor> cross_entropy_operator(
  const at::Tensor& logits, const at::Tensor& targets, std::int64_t ignored) {
  const c10::cuda::CUDAGuard guard{logits.device()};
  auto losses = floats_like(logits, {targets.numel()});
  auto norms = floats_like(logits, {targets.numel(), 2});
  auto task = losses_of(logits, targets, norms, ignored);
  task.losses = data_of(losses, targets.numel());
  launch(task, logits);
  return {std::move(losses), std::move(norms)};
}

void cross_entropy_gradient_operator(const at::Tensor& logits,
                                     const at::Tensor& targets,
                                     const at::Tensor& norms,
                                     const at::Tensor& scale,
                                     std::int64_t ignored) {
  require_one_gpu({logits, scale});
  const c10::cuda::CUDAGuard guard{logits.device()};
  auto task = losses_of(logits, targets, norms, ignored);
  task.scale = data_of(scale, 1);
  launch(task, logits);
}

void define_for_layers(torch::Library& library) {
  constexpr auto key = c10::DispatchKey::CUDA;
  add_operator(library, "gpu_gated",
               "gpu_gated(Tensor x, Tensor factor, int which) -> Tensor",
               gated_operator, key);
  add_operator(library, "gpu_gated_backward",
               "gpu_gated_backward(Tensor gradient, Tensor x, Tensor factor, "
               "int which) -> (Tensor, Tensor)",
               gated_backward_operator, key);
  add_operator(library, "gpu_rotate",
               "gpu_rotate(Tensor x, Tensor cosines, Tensor sines, bool "
               "inverse) -> Tensor",
               rotate_operator, key);
  add_operator(library, "gpu_cross_entropy",
               "gpu_cross_entropy(Tensor logits, Tensor targets, int ignored) "
               "-> (Tensor, Tensor)",
               cross_entropy_operator, key);
  add_operator(library, "gpu_cross_entropy_gradient_",
               "gpu_cross_entropy_gradient_(Tensor(a!) logits, Tensor targets, "
               "Tensor norms, Tensor scale, int ignored) -> ()",
               cross_entropy_gradient_operator, key);
}

}  // namespace

void register_layer_operators() {
  define_operators("troupe::gpu_gated", define_for_layers);
}

}  // namespace troupe
