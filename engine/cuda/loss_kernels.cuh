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

/// Groups of four values of a row, `step` apart: a thread loads them at once.
constexpr int groups_at_once = 4;

struct stored_groups {
  stored_four of[groups_at_once];
};

/// Those from `first` on that begin before `end`.
__device__ stored_groups load_groups(const typed_values& from,
                                     std::int64_t first, std::int64_t end,
                                     std::int64_t step) {
  stored_groups result{};
  for (int g = 0; g < groups_at_once; ++g)
    if (first + g * step < end)
      result.of[g] = load_four(from, first + g * step);
  return result;
}

/// NaN is in the sum.
__device__ exponential_sum sum_of(const four_values (&groups)[groups_at_once]) {
  exponential_sum all{-INFINITY, 0.F};
  for (const auto& x : groups)
    for (const auto each : x.v)
      all.greatest = fmaxf(all.greatest, each);
  for (const auto& x : groups)
    for (const auto each : x.v)
      all.sum += each == all.greatest ? 1.F : expf(each - all.greatest);
  return all;
}

/// A thread's share of the row [begin, end).
__device__ exponential_sum sum_of_row(const typed_values& logits,
                                      std::int64_t begin, std::int64_t end) {
  constexpr four_values nothing{{-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
  const auto step = std::int64_t{4} * blockDim.x;
  exponential_sum all{-INFINITY, 0.F};
  for (auto first = begin + 4 * threadIdx.x; first < end;
       first += groups_at_once * step) {
    const auto stored = load_groups(logits, first, end, step);
    four_values groups[groups_at_once];
    for (int g = 0; g < groups_at_once; ++g)
      groups[g] =
        first + g * step < end ? widened(stored.of[g], logits.type) : nothing;
    all = joined(all, sum_of(groups));
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
    const auto all = joined_in_block(
      sum_of_row(task.logits, row * task.width, (row + 1) * task.width),
      is_odd ? odd : even);
    if (threadIdx.x > 0)
      continue;
    task.norms[2 * row] = all.greatest;
    task.norms[2 * row + 1] = logf(all.sum);
    task.losses[row] = loss_of(task, row);
  }
}

/// Overwrites the thread's share of a row with its gradients.
__device__ void write_gradients(const cross_entropy_task& task,
                                std::int64_t row, float scale) {
  const auto begin = row * task.width, end = begin + task.width;
  const auto target = begin + task.targets[row];
  const auto most = task.norms[2 * row], logarithm = task.norms[2 * row + 1];
  const auto step = std::int64_t{4} * blockDim.x;
  for (auto first = begin + 4 * threadIdx.x; first < end;
       first += groups_at_once * step) {
    const auto stored = load_groups(task.logits, first, end, step);
    TROUPE_UNROLL
    for (int g = 0; g < groups_at_once; ++g) {
      const auto at = first + g * step;
      if (at >= end)
        continue;
      auto x = widened(stored.of[g], task.logits.type);
      for (int k = 0; k < 4; ++k)
        x.v[k] =
          (expf((x.v[k] - most) - logarithm) - (at + k == target ? 1.F : 0.F))
          * scale;
      write_four(task.logits, at, x);
    }
  }
}

__device__ void write_zeros(const cross_entropy_task& task, std::int64_t row) {
  for (std::int64_t i = 4 * threadIdx.x; i < task.width; i += 4 * blockDim.x)
    write_four(task.logits, row * task.width + i, {});
}

__global__ void __launch_bounds__(block_threads)
  loss_gradient_kernel(const cross_entropy_task task) {
  const auto scale = *task.scale;
  for (auto row = std::int64_t{blockIdx.x}; row < task.rows; row += gridDim.x)
    if (task.targets[row] == task.ignored)
      write_zeros(task, row);
    else
      write_gradients(task, row, scale);
}

}  // namespace loss_kernels
}  // namespace troupe
