#include "troupe/engine/cuda/block_join.cuh"
#include "troupe/engine/cuda/launches.hpp"

namespace troupe {
namespace {

/// Counts of a warp, in shared memory; empty without a histogram.
struct warp_bins {
  int* counts;

  template <class T>
  __device__ void add(const value_run<T>& run) const {
    if (counts)
      for (int i = 0; i < run_values<T>; ++i)
        if (const auto bin = run.bin(i); bin >= 0)
          atomicAdd(counts + bin, 1);
  }
};

struct join_moments {
  __device__ void operator()(moments& to, const moments& from) const {
    to.add(from);
  }
};

struct join_parts {
  template <class Part>
  __device__ void operator()(Part& to, const Part& from) const {
    to.join(from);
  }
};

__device__ int lane() {
  return threadIdx.x % warp_lanes;
}
__device__ int warp() {
  return threadIdx.x / warp_lanes;
}

/// A lane's share of the values from `begin` to `end`.
template <class T, class Load>
__device__ void take(Load load, std::int64_t begin, std::int64_t end, int lanes,
                     statistics_part& part, moments& instance, warp_bins bins) {
  const int first = threadIdx.x % lanes;
  for (auto i = begin + first; i < end; i += lanes * run_values<T>) {
    const auto run = run_at<T>(load, i, end, lanes);
    run.add_to(part, instance);
    bins.add(run);
  }
}

/// A warp's instance: its first lane adds the instance.
template <class Part>
__device__ void add_instance(moments instance, Part& part) {
  instance = warp_join(instance, join_moments{});
  if (lane() != 0)
    return;
  part.add_instance(instance);
  part.values.add(instance);
}

/// A thread's share of a piece. Completes an instance's moments, except for
/// those that the block handles together.
template <class T, class Load>
__device__ statistics_part take_piece(const statistics_entry& entry,
                                      std::int64_t piece, Load load,
                                      warp_bins bins) {
  statistics_part part;
  const auto range = range_of(entry, piece);
  const int lanes = entry.lanes, teams = block_threads / lanes;
  for (auto i = range.first + threadIdx.x / lanes; i < range.last; i += teams) {
    moments instance;
    const auto begin = i * entry.width;
    take<T>(load, begin + range.begin, begin + range.end, lanes, part, instance,
            bins);
    if (lanes == warp_lanes) {
      add_instance(instance, part);
    } else {
      if (lanes == 1)
        part.add_instance(instance);
      part.values.add(instance);
    }
  }
  return part;
}

__device__ statistics_part take_piece(const statistics_entry& entry,
                                      std::int64_t piece, warp_bins bins) {
  const auto* words = static_cast<const std::uint16_t*>(entry.data);
  switch (entry.type) {
    case device_type::fp64:
      return take_piece<double>(
        entry, piece,
        plain_values<double>{static_cast<const double*>(entry.data)}, bins);
    case device_type::fp16:
      return take_piece<float>(entry, piece, half_values{words}, bins);
    case device_type::bf16:
      return take_piece<float>(entry, piece, bfloat16_values{words}, bins);
    default:
      return take_piece<float>(
        entry, piece,
        plain_values<float>{static_cast<const float*>(entry.data)}, bins);
  }
}

/// A thread's share of the pieces of a tensor.
__device__ statistics_total take_parts(const statistics_entry& entry,
                                       const statistics_part* parts) {
  statistics_total mine;
  if (entry.split == 1) {
    for (std::int64_t k = threadIdx.x; k < entry.pieces(); k += block_threads)
      mine.join(parts[k]);
    return mine;
  }
  for (std::int64_t i = warp(); i < entry.instances; i += block_warps) {
    moments instance;
    for (int k = lane(); k < entry.split; k += warp_lanes) {
      const auto& part = parts[i * entry.split + k];
      mine.join_rest(part);
      instance.add(part.values);
    }
    add_instance(instance, mine);
  }
  return mine;
}

__device__ void clear_bins(int* bins) {
  for (int i = threadIdx.x; i < block_warps * histogram_bins;
       i += block_threads)
    bins[i] = 0;
  __syncthreads();
}

/// Adds a block's counts to the row: whole numbers, so order doesn't matter.
__device__ void add_bins(const int* bins, double* to) {
  __syncthreads();
  for (int i = threadIdx.x; i < histogram_bins; i += block_threads) {
    int sum = 0;
    for (int k = 0; k < block_warps; ++k)
      sum += bins[k * histogram_bins + i];
    if (sum > 0)
      atomicAdd(to + i, static_cast<double>(sum));
  }
}

__global__ void __launch_bounds__(block_threads, 2)
  statistics_kernel(const __grid_constant__ statistics_table table) {
  __shared__ statistics_part shared[block_warps];
  __shared__ statistics_total totals[block_warps];
  extern __shared__ int bins[];
  const auto wide = table.columns == wide_statistics_columns;
  const auto index = find_entry(table, blockIdx.x);
  const auto& entry = table.entries[index];
  auto* row = table.rows + std::int64_t{entry.row} * table.columns;
  auto* parts = table.parts + entry.first_piece;
  if (wide)
    clear_bins(bins);
  auto part =
    take_piece(entry, blockIdx.x - entry.first_piece,
               warp_bins{wide ? bins + warp() * histogram_bins : nullptr});
  if (wide)
    add_bins(bins, row + statistics_columns);
  part = block_join(part, shared, join_parts{});
  if (threadIdx.x == 0) {
    if (entry.lanes == block_threads && entry.split == 1)
      part.add_instance(part.values);
    parts[blockIdx.x - entry.first_piece] = part;
  }
  if (!is_last_block(table.finished + index, entry.pieces()))
    return;
  const auto all = block_join(take_parts(entry, parts), totals, join_parts{});
  if (threadIdx.x == 0)
    write_row(entry, all, row);
}

}  // namespace

cudaError_t launch_statistics(const statistics_table& table,
                              std::int64_t pieces, cudaStream_t stream) {
  const auto bytes = table.columns == wide_statistics_columns
                       ? block_warps * histogram_bins * sizeof(int)
                       : 0;
  statistics_kernel<<<static_cast<unsigned>(pieces), block_threads, bytes,
                      stream>>>(table);
  return cudaGetLastError();
}

}  // namespace troupe
