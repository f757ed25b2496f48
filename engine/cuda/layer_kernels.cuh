#pragma once

#include <cmath>

#include "troupe/engine/cuda/row_kernels.cuh"

// Kernels for what layers compute element by element: gated activations, and
// the rotation of queries and keys. As row_kernels.cuh, also for the host.
namespace troupe {
inline namespace layer_kernels {

/// An activation's value, and its derivative.
struct activation_point {
  float value, slope;
};

__device__ activation_point gelu_at(float x) {
  const auto share = 0.5F * (1.F + erff(x * 0.707106781F));
  const auto density = 0.398942280F * expf(-0.5F * x * x);
  return {x * share, share + x * density};
}

__device__ activation_point gelu_tanh_at(float x) {
  constexpr float root = 0.797884561F, cube = 0.044715F;  // sqrt(2 / pi)
  const auto t = tanhf(root * (x + cube * x * x * x));
  const auto near = fminf(fabsf(x), 20.F);  // beyond, t's slope is 0
  const auto slope = root * (1.F + 3.F * cube * near * near);
  return {0.5F * x * (1.F + t),
          0.5F * (1.F + t) + 0.5F * x * ((1.F - t * t) * slope)};
}

__device__ activation_point silu_at(float x) {
  const auto share = 1.F / (1.F + expf(-x));
  return {x * share, share * (1.F + x * (1.F - share))};
}

__device__ activation_point activation_at(gpu_activation which, float x) {
  switch (which) {
    case gpu_activation::gelu:
      return gelu_at(x);
    case gpu_activation::gelu_tanh:
      return gelu_tanh_at(x);
    default:
      return silu_at(x);
  }
}

/// The thread's number among those of all blocks, and how many there are.
__device__ std::int64_t first_item() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ std::int64_t item_step() {
  return std::int64_t{gridDim.x} * blockDim.x;
}

__global__ void __launch_bounds__(block_threads)
  gated_kernel(const gated_task task) {
  for (auto i = 4 * first_item(); i < task.count; i += 4 * item_step()) {
    const auto stored_x = load_four(task.x, i);
    const auto stored_factor = load_four(task.factor, i);
    auto x = widened(stored_x, task.x.type);
    const auto factor = widened(stored_factor, task.factor.type);
    for (int k = 0; k < 4; ++k)
      x.v[k] = activation_at(task.activation, x.v[k]).value * factor.v[k];
    write_four(task.output, i, x);
  }
}

__global__ void __launch_bounds__(block_threads)
  gated_backward_kernel(const gated_task task) {
  for (auto i = 4 * first_item(); i < task.count; i += 4 * item_step()) {
    const auto stored_x = load_four(task.x, i);
    const auto stored_factor = load_four(task.factor, i);
    const auto stored = load_four(task.gradient, i);
    auto x = widened(stored_x, task.x.type);
    auto factor = widened(stored_factor, task.factor.type);
    const auto gradient = widened(stored, task.gradient.type);
    for (int k = 0; k < 4; ++k) {
      const auto point = activation_at(task.activation, x.v[k]);
      x.v[k] = gradient.v[k] * factor.v[k] * point.slope;
      factor.v[k] = gradient.v[k] * point.value;
    }
    write_four(task.of_x, i, x);
    write_four(task.of_factor, i, factor);
  }
}

/// Four pairs of a head, which begin at `from` and are written to `to`.
__device__ void rotate_four(const rotate_task& task, std::int64_t from,
                            std::int64_t to, std::int64_t angle) {
  const auto stored_a = load_four(task.x, from);
  const auto stored_b = load_four(task.x, from + task.pairs);
  const auto cosines = read_four(task.cosines, angle);
  const auto sines = read_four(task.sines, angle);
  const auto a = widened(stored_a, task.x.type);
  const auto b = widened(stored_b, task.x.type);
  four_values first{}, second{};
  for (int k = 0; k < 4; ++k) {
    const auto sine = task.inverse ? -sines.v[k] : sines.v[k];
    first.v[k] = a.v[k] * cosines.v[k] - b.v[k] * sine;
    second.v[k] = b.v[k] * cosines.v[k] + a.v[k] * sine;
  }
  write_four(task.output, to, first);
  write_four(task.output, to + task.pairs, second);
}

/// A group of a head's elements at the block's position of a row.
__device__ void rotate_item(const rotate_task& task, std::int64_t row,
                            std::int32_t head, std::int32_t group) {
  const auto position = std::int64_t{blockIdx.x};
  const auto from = row * task.row_stride + position * task.position_stride
                    + head * task.head_stride;
  const auto to =
    ((row * task.positions + position) * task.heads + head) * task.size;
  if (4 * group < task.pairs) {
    rotate_four(task, from + 4 * group, to + 4 * group,
                position * task.pairs + 4 * group);
  } else {
    const auto kept = task.pairs + 4 * group;
    write_four(task.output, to + kept, read_four(task.x, from + kept));
  }
}

/// Each block takes a position, of some rows.
__global__ void __launch_bounds__(block_threads)
  rotate_kernel(const rotate_task task) {
  const auto groups = task.groups();
  for (auto row = std::int64_t{blockIdx.y}; row < task.rows; row += gridDim.y)
    for (std::int32_t i = threadIdx.x; i < task.items(); i += blockDim.x)
      rotate_item(task, row, i / groups, i % groups);
}

}  // namespace layer_kernels
}  // namespace troupe
