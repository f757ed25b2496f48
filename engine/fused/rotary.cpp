#include "troupe/engine/fused/rotary.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/fused/gpu_functions.hpp"
#include "troupe/engine/fused/layer_tensors.hpp"
#include "troupe/engine/fused/operator_of.hpp"

namespace troupe::fused {

namespace {

using torch::autograd::variable_list;

at::Tensor rotate_operator(const at::Tensor& x, const at::Tensor& cosines,
                           const at::Tensor& sines, bool inverse) {
  auto output = at::empty(x.sizes(), x.options());
  with_type_of(x, [&](auto type) {
    using T = decltype(type);
    const rotation_call<T> all{data_of<const T>(x),
                               data_of<T>(output),
                               data_of<const float>(cosines),
                               data_of<const float>(sines),
                               x.stride(0),
                               x.stride(1),
                               x.stride(2),
                               x.size(1),
                               x.size(2),
                               x.size(3),
                               cosines.size(1),
                               inverse};
    in_parallel(x.size(0) * x.size(1), x.size(2) * x.size(3),
                [&](std::int64_t first, std::int64_t end) {
                  kernels_for<T>().rotate(all, first, end);
                });
  });
  return output;
}

void define_rotation(torch::Library& library) {
  add_operator(library, "rotate",
               "rotate(Tensor x, Tensor cosines, Tensor sines, bool inverse) "
               "-> Tensor",
               rotate_operator);
}

/// Whether there is a kernel for it, if the heads' elements are adjacent.
bool has_kernel(const at::Tensor& x, std::int64_t pairs) {
  return has_kernels(x) || (x.dim() == 4 && has_gpu_rotation(x, pairs));
}

at::Tensor run(const at::Tensor& x, const at::Tensor& cosines,
               const at::Tensor& sines, bool inverse) {
  if (x.is_cuda())
    return rotate_on_gpu(x, cosines, sines, inverse);
  const auto rows = x.size(3) == 1 || x.stride(3) == 1 ? x : x.contiguous();
  static const auto rotates =
    operator_of<decltype(rotate_operator)>("troupe::rotate", define_rotation);
  return rotates.call(rows, cosines, sines, inverse);
}

struct rotate_function : torch::autograd::Function<rotate_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, const at::Tensor& cosines,
                            const at::Tensor& sines) {
    context->save_for_backward({cosines, sines});
    return run(x, cosines, sines, /*inverse=*/false);
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {run(gradients[0], saved[0], saved[1], /*inverse=*/true), {}, {}};
  }
};

at::Tensor rotated_by_libtorch(const at::Tensor& x, const at::Tensor& cosines,
                               const at::Tensor& sines) {
  const auto pairs = cosines.size(1);
  const auto c = cosines.to(x.scalar_type()).unsqueeze(1);
  const auto s = sines.to(x.scalar_type()).unsqueeze(1);
  const auto a = x.narrow(3, 0, pairs), b = x.narrow(3, pairs, pairs);
  return at::cat({a * c - b * s, b * c + a * s,
                  x.narrow(3, 2 * pairs, x.size(3) - 2 * pairs)},
                 3);
}

void require_shapes(const at::Tensor& x, const at::Tensor& cosines,
                    const at::Tensor& sines) {
  if (x.dim() != 4 || cosines.dim() != 2 || cosines.sizes() != sines.sizes()
      || cosines.size(0) != x.size(1) || 2 * cosines.size(1) > x.size(3))
    fail(error_code::invalid_argument,
         "rotations take [rows, positions, heads, size], and cosines and sines "
         "[positions, pairs] of at most half the size, not {}, {} and {}",
         describe(x), describe(cosines), describe(sines));
}

}  // namespace

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosines,
                  const at::Tensor& sines) {
  require_shapes(x, cosines, sines);
  if (!has_kernel(x, cosines.size(1)))
    return rotated_by_libtorch(x, cosines, sines);
  const auto c = cosines.contiguous(), s = sines.contiguous();
  if (!at::GradMode::is_enabled() || !x.requires_grad())
    return run(x, c, s, /*inverse=*/false);
  return rotate_function::apply(x, c, s);
}

at::Tensor rotate_back(const at::Tensor& x, const at::Tensor& cosines,
                       const at::Tensor& sines) {
  const at::NoGradGuard no_grad;
  require_shapes(x, cosines, sines);
  return has_kernel(x, cosines.size(1))
           ? run(x, cosines.contiguous(), sines.contiguous(), /*inverse=*/true)
           : rotated_by_libtorch(x, cosines, -sines);
}

}  // namespace troupe::fused
