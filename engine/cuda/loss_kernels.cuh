#pragma once

#include <cmath>

#include "troupe/engine/cuda/row_kernels.cuh"

// Cross entropy: a block takes a row of logits at a time. As row_kernels.cuh,
// also for the host.
namespace troupe {
inline namespace loss_kernels {

using row_kernels::from_lane;

/// The sum of exponentials of some values less the greatest of them.
struct exponential_sum {
  float greatest, sum;
};

__device__ exponential_sum joined(const exponential_sum& a,
                                  const exponential_sum& b) {
  const auto most = fmaxf(a.greatest, b.greatest);
  // Nothing is subtracted from itself where all are -infinity.
  const auto share = [most](const exponential_sum& each) {
    return each.greatest == most ? each.sum
                                 : each.sum * expf(each.greatest - most);
  };
  return {most, share(a) + share(b)};
}

__device__ exponential_sum from_lane(const exponential_sum& value, int lanes) {
  return {from_lane(value.greatest, lanes), from_lane(value.sum, lanes)};
}

/// A thread's share of a row. NaN is in the sum.
__device__ exponential_sum sum_of_row(const typed_values& logits,
                                      std::int64_t first, std::int64_t width) {
  exponential_sum all{-INFINITY, 0.F};
  for (std::int64_t i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x) {
    const auto x = read_four(logits, first + i);
    exponential_sum four{fmaxf(fmaxf(x.v[0], x.v[1]), fmaxf(x.v[2], x.v[3])),
                         0.F};
    for (int k = 0; k < 4; ++k)
      four.sum += x.v[k] == four.greatest ? 1.F : expf(x.v[k] - four.greatest);
    all = joined(all, four);
  }
  return all;
}

__device__ float read_one(const typed_values& from, std::int64_t index) {
  return read_four(from, index / 4 * 4).v[index % 4];
}

__device__ float loss_of(const cross_entropy_task& task, std::int64_t row) {
  const auto target = task.targets[row];
  if (target == task.ignored)
    return 0.F;
  if (target < 0 || target >= task.width)
    return NAN;
  return task.norms[2 * row + 1]
         - (read_one(task.logits, row * task.width + target)
            - task.norms[2 * row]);
}

__global__ void __launch_bounds__(block_threads)
  loss_kernel(const cross_entropy_task task) {
  __shared__ exponential_sum even[warp_lanes], odd[warp_lanes];
  bool is_odd = false;
  for (auto row = std::int64_t{blockIdx.x}; row < task.rows;
       row += gridDim.x, is_odd = !is_odd) {
    const auto all =
      joined_in_block(sum_of_row(task.logits, row * task.width, task.width),
                      is_odd ? odd : even);
    if (threadIdx.x > 0)
      continue;
    task.norms[2 * row] = all.greatest;
    task.norms[2 * row + 1] = logf(all.sum);
    task.losses[row] = loss_of(task, row);
  }
}

__global__ void __launch_bounds__(block_threads)
  loss_gradient_kernel(const cross_entropy_task task) {
  const auto scale = *task.scale;
  for (auto row = std::int64_t{blockIdx.x}; row < task.rows; row += gridDim.x) {
    const auto first = row * task.width;
    const auto target = task.targets[row];
    const bool counts = target != task.ignored;
    const auto most = task.norms[2 * row], logarithm = task.norms[2 * row + 1];
    for (std::int64_t i = 4 * threadIdx.x; i < task.width;
         i += 4 * blockDim.x) {
      auto x = counts ? read_four(task.logits, first + i) : four_values{};
      for (int k = 0; k < 4 && counts; ++k)
        x.v[k] =
          (expf((x.v[k] - most) - logarithm) - (i + k == target ? 1.F : 0.F))
          * scale;
      write_four(task.logits, first + i, x);
    }
  }
}

}  // namespace loss_kernels
}  // namespace troupe
