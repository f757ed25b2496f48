#pragma once

#include <cstring>

#include "troupe/engine/cuda/row_tasks.hpp"

// Kernels for rows: norms, and sums of columns. Each thread reads and writes
// four adjacent values at once. Also compiled for the host, where tests run
// each thread of a block (tests/engine/cuda/host_block.hpp): whoever includes
// this file has defined rounded_bfloat16 and rounded_half, of a float to the
// nearest, halves to even, as the bits of the result, and TROUPE_UNROLL.
namespace troupe {
inline namespace row_kernels {

/// Four values as they are in memory, of fp16 and bf16 in the first two words.
/// Loading several before one is widened has them on the way at the same time.
struct stored_four {
  uint4 words;
};

/// `first`: the first value's index, a multiple of four; null data gives zeros.
__device__ stored_four load_four(const typed_values& from, std::int64_t first) {
  if (from.data == nullptr)
    return {};
  if (from.type == device_type::fp32)
    return {*reinterpret_cast<const uint4*>(static_cast<const float*>(from.data)
                                            + first)};
  const auto half = *reinterpret_cast<const uint2*>(
    static_cast<const std::uint16_t*>(from.data) + first);
  return {{half.x, half.y, 0, 0}};
}

__device__ four_values widened(const stored_four& four, device_type type) {
  four_values result;
  if (type == device_type::fp32) {
    memcpy(&result, &four, sizeof result);
    return result;
  }
  std::uint16_t bits[8];
  memcpy(bits, &four, sizeof bits);
  for (int i = 0; i < 4; ++i)
    result.v[i] = type == device_type::bf16 ? widened_bfloat16(bits[i])
                                            : widened_half(bits[i]);
  return result;
}

__device__ four_values read_four(const typed_values& from, std::int64_t first) {
  return widened(load_four(from, first), from.type);
}

/// Rounds to the nearest, halves to even. __stwb is one store of all four; of
/// an assignment the compiler may make four.
__device__ void write_four(const typed_values& to, std::int64_t first,
                           const four_values& values) {
  if (to.type == device_type::fp32) {
    uint4 raw;
    memcpy(&raw, &values, sizeof raw);
    __stwb(reinterpret_cast<uint4*>(static_cast<float*>(to.data) + first), raw);
    return;
  }
  std::uint16_t bits[4];
  for (int i = 0; i < 4; ++i)
    bits[i] = to.type == device_type::bf16 ? rounded_bfloat16(values.v[i])
                                           : rounded_half(values.v[i]);
  uint2 raw;
  memcpy(&raw, bits, sizeof raw);
  __stwb(reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(to.data) + first),
         raw);
}

__device__ float from_lane(float value, int lanes) {
  return __shfl_xor_sync(0xffffffff, value, lanes);
}
__device__ norm_sums from_lane(const norm_sums& value, int lanes) {
  return {from_lane(value.gradients, lanes), from_lane(value.products, lanes)};
}

/// Joins the values of a block's threads, or if it has several teams, of a
/// team's, a warp, in a fixed order; all get the result. `shared` has room for
/// one value per warp, and must not be that of the call before.
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

/// The thread's team among those of all blocks, and how many there are. Blocks
/// have several where a team is a warp, whose threads have one chunk.
template <int Chunks>
__device__ std::int64_t first_row() {
  return Chunks > 1 ? std::int64_t{blockIdx.x}
                    : std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
}
template <int Chunks>
__device__ std::int64_t row_step() {
  return Chunks > 1 ? std::int64_t{gridDim.x}
                    : std::int64_t{gridDim.x} * blockDim.y;
}

/// The first column of a thread's chunk.
__device__ std::int64_t column_of(int chunk) {
  return 4 * (std::int64_t{chunk} * blockDim.x + threadIdx.x);
}

/// A thread's chunks of a row, or of a vector as its row 0.
template <int Chunks>
struct stored_chunks {
  stored_four of[Chunks];
};

template <int Chunks>
__device__ stored_chunks<Chunks> load_chunks(const typed_values& from,
                                             std::int64_t row,
                                             std::int64_t width) {
  stored_chunks<Chunks> result{};
  for (int c = 0; c < Chunks; ++c)
    if (column_of(c) < width)
      result.of[c] = load_four(from, row * width + column_of(c));
  return result;
}

template <int Chunks>
__device__ norm_share<Chunks> share_of(const stored_chunks<Chunks>& x,
                                       device_type type, std::int64_t width) {
  norm_share<Chunks> share;
  for (int c = 0; c < Chunks; ++c) {
    share.has[c] = column_of(c) < width;
    share.x[c] = widened(x.of[c], type);
  }
  return share;
}

template <int Chunks>
__device__ void write_norm(const norm_task& task, std::int64_t row,
                           const norm_share<Chunks>& share, float mean,
                           float scale) {
  const auto weight = load_chunks<Chunks>(task.weight, 0, task.width);
  const auto bias = load_chunks<Chunks>(task.bias, 0, task.width);
  for (int c = 0; c < Chunks; ++c)
    if (share.has[c])
      write_four(task.output, row * task.width + column_of(c),
                 share.normalised(c, mean, scale,
                                  widened(weight.of[c], task.weight.type),
                                  widened(bias.of[c], task.bias.type)));
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
  for (auto row = first_row<Chunks>(); row < task.rows;
       row += row_step<Chunks>()) {
    const auto share = share_of(load_chunks<Chunks>(task.x, row, task.width),
                                task.x.type, task.width);
    const auto mean =
      task.means ? joined_in_block(share.sum(), sums) / count : 0.F;
    const auto variance = joined_in_block(share.squares(mean), squares) / count;
    write_norm(task, row, share, mean, 1.F / sqrtf(variance + task.epsilon));
    // RMSNorm has one sum only, whose memory the next row writes.
    if (!task.means && blockDim.y == 1)
      __syncthreads();
  }
}

/// Values of some columns, in the chunks of a thread.
template <int Chunks>
struct chunk_values {
  four_values of[Chunks];
};

template <int Chunks>
__device__ chunk_values<Chunks> widened(const stored_chunks<Chunks>& chunks,
                                        device_type type) {
  chunk_values<Chunks> result;
  for (int c = 0; c < Chunks; ++c)
    result.of[c] = widened(chunks.of[c], type);
  return result;
}

template <int Chunks>
__device__ void write_parts(const norm_backward_task& task,
                            const norm_backward_share<Chunks>& own) {
  for (int c = 0; c < Chunks; ++c) {
    if (column_of(c) >= task.width)
      continue;
    auto* part =
      task.parts + first_row<Chunks>() * task.part_width() + column_of(c);
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
  const auto stored_x = load_chunks<Chunks>(task.x, row, task.width);
  const auto stored = load_chunks<Chunks>(task.gradient, row, task.width);
  const auto added = load_chunks<Chunks>(task.added, row, task.width);
  auto share = share_of(stored_x, task.x.type, task.width);
  auto gradients = widened(stored, task.gradient.type);
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
                                      widened(added.of[c], task.added.type)));
  }
}

template <int Chunks>
__global__ void __launch_bounds__(1024)
  norm_backward_kernel(const norm_backward_task task) {
  __shared__ norm_sums even[warp_lanes], odd[warp_lanes];
  norm_backward_share<Chunks> own;
  const auto weight =
    widened(load_chunks<Chunks>(task.weight, 0, task.width), task.weight.type);
  bool is_odd = false;
  for (auto row = first_row<Chunks>(); row < task.rows;
       row += row_step<Chunks>(), is_odd = !is_odd)
    take_row(task, row, weight, is_odd ? odd : even, own);
  write_parts(task, own);
}

/// Every `row_lanes`-th row of a part, from the lane's on.
__device__ four_values sum_of_rows(const column_sums_task& task,
                                   std::int64_t lane, std::int64_t column) {
  constexpr int at_once = 8;
  const auto begin = std::int64_t{blockIdx.y} * task.rows_per_part;
  const auto end = smaller(begin + task.rows_per_part, task.rows);
  four_values sum{};
  for (auto row = begin + lane; row < end; row += at_once * row_lanes) {
    stored_four rows[at_once] = {};
    TROUPE_UNROLL
    for (int i = 0; i < at_once; ++i)
      if (row + i * row_lanes < end)
        rows[i] =
          load_four(task.values, (row + i * row_lanes) * task.width + column);
    TROUPE_UNROLL
    for (int i = 0; i < at_once; ++i)
      sum = joined(sum, widened(rows[i], task.values.type));
  }
  return sum;
}

/// A thread takes four adjacent columns of every `row_lanes`-th row; the sums
/// are joined in the order of the lanes.
__global__ void __launch_bounds__(block_threads)
  column_sums_kernel(const column_sums_task task) {
  __shared__ four_values shared[row_lanes][column_lanes];
  const int of_columns = threadIdx.x % column_lanes;
  const int of_rows = threadIdx.x / column_lanes;
  const auto column = std::int64_t{blockIdx.x} * tile_columns + 4 * of_columns;
  if (column < task.width)
    shared[of_rows][of_columns] = sum_of_rows(task, of_rows, column);
  __syncthreads();
  if (of_rows > 0 || column >= task.width)
    return;
  auto sum = shared[0][of_columns];
  for (int other = 1; other < row_lanes; ++other)
    sum = joined(sum, shared[other][of_columns]);
  const auto first = std::int64_t{blockIdx.y} * task.width + column;
  if (task.adds)
    sum = joined(sum, read_four(task.sums, first));
  write_four(task.sums, first, sum);
}

}  // namespace row_kernels
}  // namespace troupe
