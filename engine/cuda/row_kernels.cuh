#pragma once

#include <cstring>

#include "troupe/engine/cuda/row_tasks.hpp"

// Kernels for rows: norms, and sums of columns. Each thread reads and writes
// four adjacent values at once. Also compiled for the host, where tests run
// each thread of a block (tests/engine/cuda/host_block.hpp): whoever includes
// this file has defined rounded_bfloat16 and rounded_half, of a float to the
// nearest, halves to even, as the bits of the result.
namespace troupe {
inline namespace row_kernels {

/// `first`: the first value's index, a multiple of four; null data reads zeros.
__device__ four_values read_four(const typed_values& from, std::int64_t first) {
  four_values result{};
  if (from.data == nullptr)
    return result;
  if (from.type == device_type::fp32) {
    const auto raw = *reinterpret_cast<const float4*>(
      static_cast<const float*>(from.data) + first);
    return {{raw.x, raw.y, raw.z, raw.w}};
  }
  const auto raw = *reinterpret_cast<const uint2*>(
    static_cast<const std::uint16_t*>(from.data) + first);
  std::uint16_t bits[4];
  memcpy(bits, &raw, sizeof raw);
  for (int i = 0; i < 4; ++i)
    result.v[i] = from.type == device_type::bf16 ? widened_bfloat16(bits[i])
                                                 : widened_half(bits[i]);
  return result;
}

/// Rounds to the nearest, halves to even.
__device__ void write_four(const typed_values& to, std::int64_t first,
                           const four_values& values) {
  if (to.type == device_type::fp32) {
    *reinterpret_cast<float4*>(static_cast<float*>(to.data) + first) = {
      values.v[0], values.v[1], values.v[2], values.v[3]};
    return;
  }
  std::uint16_t bits[4];
  for (int i = 0; i < 4; ++i)
    bits[i] = to.type == device_type::bf16 ? rounded_bfloat16(values.v[i])
                                           : rounded_half(values.v[i]);
  uint2 raw;
  memcpy(&raw, bits, sizeof raw);
  *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(to.data) + first) = raw;
}

__device__ float from_lane(float value, int lanes) {
  return __shfl_xor_sync(0xffffffff, value, lanes);
}
__device__ norm_sums from_lane(const norm_sums& value, int lanes) {
  return {from_lane(value.gradients, lanes), from_lane(value.products, lanes)};
}

/// Joins the values of a block's threads in a fixed order; all get the result.
/// `shared` has room for one value per warp, and must not be that of the call
/// before.
template <class Value>
__device__ Value joined_in_block(Value value, Value* shared) {
  for (int lanes = warp_lanes / 2; lanes > 0; lanes /= 2)
    value = joined(value, from_lane(value, lanes));
  const int warps = blockDim.x / warp_lanes;
  if (warps == 1)
    return value;
  if (threadIdx.x % warp_lanes == 0)
    shared[threadIdx.x / warp_lanes] = value;
  __syncthreads();
  value = shared[0];
  for (int i = 1; i < warps; ++i)
    value = joined(value, shared[i]);
  return value;
}

/// The first column of a thread's chunk.
__device__ std::int64_t column_of(int chunk) {
  return 4 * (std::int64_t{chunk} * blockDim.x + threadIdx.x);
}

template <int Chunks>
__device__ norm_share<Chunks> share_of(const typed_values& x, std::int64_t row,
                                       std::int64_t width) {
  norm_share<Chunks> share;
  for (int c = 0; c < Chunks; ++c) {
    share.has[c] = column_of(c) < width;
    if (share.has[c])
      share.x[c] = read_four(x, row * width + column_of(c));
  }
  return share;
}

template <int Chunks>
__device__ void write_norm(const norm_task& task, std::int64_t row,
                           const norm_share<Chunks>& share, float mean,
                           float scale) {
  for (int c = 0; c < Chunks; ++c)
    if (share.has[c])
      write_four(
        task.output, row * task.width + column_of(c),
        share.normalised(c, mean, scale, read_four(task.weight, column_of(c)),
                         read_four(task.bias, column_of(c))));
  if (threadIdx.x > 0)
    return;
  if (task.means)
    task.means[row] = mean;
  task.scales[row] = scale;
}

template <int Chunks>
__global__ void __launch_bounds__(1024) norm_kernel(const norm_task task) {
  __shared__ float sums[warp_lanes], squares[warp_lanes];
  const auto count = static_cast<float>(task.width);
  for (auto row = std::int64_t{blockIdx.x}; row < task.rows; row += gridDim.x) {
    const auto share = share_of<Chunks>(task.x, row, task.width);
    const auto mean =
      task.means ? joined_in_block(share.sum(), sums) / count : 0.F;
    const auto variance = joined_in_block(share.squares(mean), squares) / count;
    write_norm(task, row, share, mean, 1.F / sqrtf(variance + task.epsilon));
    // RMSNorm has one sum only, whose memory the next row writes.
    if (!task.means)
      __syncthreads();
  }
}

/// Values of some columns, in the chunks of a thread.
template <int Chunks>
struct chunk_values {
  four_values of[Chunks] = {};
};

/// Those of a row, or of a vector as its row 0.
template <int Chunks>
__device__ chunk_values<Chunks> chunks_of(const typed_values& from,
                                          std::int64_t row,
                                          std::int64_t width) {
  chunk_values<Chunks> result;
  for (int c = 0; c < Chunks; ++c)
    if (column_of(c) < width)
      result.of[c] = read_four(from, row * width + column_of(c));
  return result;
}

template <int Chunks>
__device__ void write_parts(const norm_backward_task& task,
                            const norm_backward_share<Chunks>& own) {
  for (int c = 0; c < Chunks; ++c) {
    if (column_of(c) >= task.width)
      continue;
    auto* part = task.parts + blockIdx.x * task.part_width() + column_of(c);
    write_four({part}, 0, own.weights[c]);
    if (task.has_bias)
      write_four({part + task.width}, 0, own.biases[c]);
  }
}

/// A row of `norm_backward_kernel`; the sums are joined in `shared`.
template <int Chunks>
__device__ void take_row(const norm_backward_task& task, std::int64_t row,
                         const chunk_values<Chunks>& weight, norm_sums* shared,
                         norm_backward_share<Chunks>& own) {
  auto share = share_of<Chunks>(task.x, row, task.width);
  auto gradients = chunks_of<Chunks>(task.gradient, row, task.width);
  const auto mean = task.means ? task.means[row] : 0.F;
  const auto scale = task.scales[row];
  const auto count = static_cast<float>(task.width);
  auto means = joined_in_block(
    own.take(share, gradients.of, weight.of, mean, scale), shared);
  means = {task.means ? means.gradients / count : 0.F, means.products / count};
  for (int c = 0; c < Chunks; ++c) {
    const auto first = row * task.width + column_of(c);
    if (share.has[c])
      write_four(task.input_gradient, first,
                 norm_input_gradients(share.x[c], gradients.of[c], means, scale,
                                      read_four(task.added, first)));
  }
}

template <int Chunks>
__global__ void __launch_bounds__(1024)
  norm_backward_kernel(const norm_backward_task task) {
  __shared__ norm_sums even[warp_lanes], odd[warp_lanes];
  norm_backward_share<Chunks> own;
  const auto weight = chunks_of<Chunks>(task.weight, 0, task.width);
  bool is_odd = false;
  for (auto row = std::int64_t{blockIdx.x}; row < task.rows;
       row += gridDim.x, is_odd = !is_odd)
    take_row(task, row, weight, is_odd ? odd : even, own);
  write_parts(task, own);
}

__device__ void add(four_values& to, const four_values& more) {
  for (int i = 0; i < 4; ++i)
    to.v[i] += more.v[i];
}

/// Every `block_warps`-th row of a part, from the warp's on.
__device__ four_values sum_of_rows(const column_sums_task& task, int warp,
                                   std::int64_t column) {
  const auto begin = std::int64_t{blockIdx.y} * task.rows_per_part;
  const auto end = smaller(begin + task.rows_per_part, task.rows);
  four_values sum{};
  for (auto row = begin + warp; row < end; row += block_warps)
    add(sum, read_four(task.values, row * task.width + column));
  return sum;
}

/// A warp takes 128 adjacent columns; the block's warps take rows in turn, and
/// their sums are joined in the order of the warps.
__global__ void __launch_bounds__(block_threads)
  column_sums_kernel(const column_sums_task task) {
  __shared__ four_values shared[block_warps][warp_lanes];
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  const auto column = 4 * (std::int64_t{blockIdx.x} * warp_lanes + lane);
  if (column < task.width)
    shared[warp][lane] = sum_of_rows(task, warp, column);
  __syncthreads();
  if (warp > 0 || column >= task.width)
    return;
  auto sum = shared[0][lane];
  for (int other = 1; other < block_warps; ++other)
    add(sum, shared[other][lane]);
  const auto first = std::int64_t{blockIdx.y} * task.width + column;
  if (task.adds)
    add(sum, read_four({task.sums}, first));
  write_four({task.sums}, first, sum);
}

}  // namespace row_kernels
}  // namespace troupe
