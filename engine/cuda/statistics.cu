#include "troupe/engine/cuda/block_join.cuh"
#include "troupe/engine/cuda/launches.hpp"

namespace troupe {
inline namespace statistics_kernels {

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

/// Vectors of 16 bytes begin at multiples of 16 bytes in all instances.
template <class Format>
__device__ bool is_aligned(const statistics_entry& entry) {
  return reinterpret_cast<std::uintptr_t>(entry.data) % 16 == 0
         && (entry.instances == 1 || entry.width % vector_values<Format> == 0);
}

/// A lane's values of a whole tile.
template <class Format>
__device__ value_run<true> full_run(const typename Format::stored* tile,
                                    int lanes, int lane, bool aligned) {
  using stored = typename Format::stored;
  constexpr int vector = vector_values<Format>;
  stored loaded[run_length];
#pragma unroll
  for (int i = 0; i < run_length; i += vector) {
    const auto* from = tile + place_in_tile<Format>(i, lanes, lane);
    uint4 raw;
    if (aligned) {
      raw = *reinterpret_cast<const uint4*>(from);
      memcpy(loaded + i, &raw, sizeof raw);
    } else {
#pragma unroll
      for (int k = 0; k < vector; ++k)
        loaded[i + k] = from[k];
    }
  }
  value_run<true> run;
#pragma unroll
  for (int i = 0; i < run_length; ++i)
    run.values[i] = Format::widened(loaded[i]);
  return run;
}

/// A lane's values, if any, of the tile that ends after `rest` values.
template <class Format>
__device__ value_run<false> last_run(const typename Format::stored* tile,
                                     int rest, int lanes, int lane) {
  value_run<false> run;
  run.count = lane_count<Format>(rest, lanes, lane);
#pragma unroll
  for (int i = 0; i < run_length; ++i)
    if (i < run.count)
      run.values[i] =
        Format::widened(tile[place_in_tile<Format>(i, lanes, lane)]);
  return run;
}

/// Adds values [begin, end) of an instance with a team of lanes, and returns
/// their sums about `centre`.
template <class Format>
struct fast_taker {
  bool aligned;
  bool fits = true;

  __device__ centred_sums operator()(const typename Format::stored* data,
                                     std::int64_t begin, std::int64_t end,
                                     int lanes, double centre,
                                     thread_part& part) {
    const int lane = threadIdx.x % lanes, tile = lanes * run_length;
    run_sums sums{centre};
#pragma unroll 1
    for (; begin + tile <= end; begin += tile)
      fits = full_run<Format>(data + begin, lanes, lane, aligned)
               .add_to(sums, part.counts)
             && fits;
    const auto run = last_run<Format>(
      data + begin, static_cast<int>(end - begin), lanes, lane);
    if (run.count > 0)
      fits = run.add_to(sums, part.counts) && fits;
    part.range.join(sums.range());
    return sums.values;
  }
};

template <class Format>
struct careful_taker {
  __device__ centred_sums operator()(const typename Format::stored* data,
                                     std::int64_t begin, std::int64_t end,
                                     int lanes, double centre,
                                     thread_part& part) {
    centred_sums sums;
#pragma unroll 1
    for (auto i = begin + threadIdx.x % lanes; i < end; i += lanes)
      add_carefully(Format::widened(data[i]), centre, sums, part);
    return sums;
  }
};

/// A thread's share of a piece.
template <class Format, class Taker>
__device__ thread_part take_share(const statistics_entry& entry,
                                  const piece_range& range, double centre,
                                  Taker& take) {
  thread_part part;
  const auto* data = static_cast<const typename Format::stored*>(entry.data);
  const int lanes = entry.lanes, teams = block_threads / lanes;
#pragma unroll 1
  for (auto i = range.first + threadIdx.x / lanes; i < range.last; i += teams) {
    const auto begin = i * entry.width;
    const auto own = centre_of<Format>(data[begin + range.begin]);
    auto sums =
      take(data, begin + range.begin, begin + range.end, lanes, own, part);
    if (lanes == block_threads) {  // there is but one
      part.values = sums;
      break;
    }
    if (lanes == warp_lanes)
      sums = warp_join(sums, join_parts{});
    if (lanes == 1 || lane() == 0)
      part.add_instance(sums.about(own), centre);
  }
  return part;
}

template <class Format>
__device__ __noinline__ thread_part take_carefully(
  const statistics_entry& entry, const piece_range& range, double centre) {
  careful_taker<Format> take;
  return take_share<Format>(entry, range, centre, take);
}

template <class Format>
__device__ thread_part take_share(const statistics_entry& entry,
                                  const piece_range& range, double centre) {
  if constexpr (sizeof(typename Format::wide) == sizeof(float)) {
    fast_taker<Format> take{is_aligned<Format>(entry)};
    const auto part = take_share<Format>(entry, range, centre, take);
    if (!__syncthreads_or(!take.fits))
      return part;
  }
  return take_carefully<Format>(entry, range, centre);
}

/// The part of the block; the first thread gets it. The order of counts does
/// not matter.
__device__ thread_part joined(thread_part part, bool has_instances) {
  __shared__ thread_part shared[block_warps];
  part.values = warp_join(part.values, join_parts{});
  part.range = warp_join(part.range, join_parts{});
  if (has_instances)
    part.instances = warp_join(part.instances, join_parts{});
  if (__any_sync(0xffffffff, part.counts.any()))
    part.counts.with(part.counts, [](int& count, int) {
      count = __reduce_add_sync(0xffffffff, count);
    });
  return join_warps(part, shared, join_parts{});
}

/// The result of a piece; the first thread gets it.
__device__ statistics_part take_piece(const statistics_entry& entry,
                                      const piece_range& range) {
  return with_format(entry.type, [&](auto format) {
    using chosen = decltype(format);
    const auto* data = static_cast<const typename chosen::stored*>(entry.data);
    const auto centre =
      centre_of<chosen>(data[range.first * entry.width + range.begin]);
    const auto part = take_share<chosen>(entry, range, centre);
    return part_of(joined(part, entry.lanes != block_threads), centre);
  });
}

/// A warp's instance: its first lane adds the instance.
__device__ void add_instance(moments instance, statistics_total& total) {
  instance = warp_join(instance, join_moments{});
  if (lane() != 0)
    return;
  total.instances.add(instance);
  total.values.add(instance);
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

/// Counts the values of a piece by their exponents, each warp in shared memory
/// of its own, and adds them to the row: whole numbers, so order doesn't
/// matter.
__device__ void add_histogram(const statistics_entry& entry,
                              const piece_range& range, int* bins, double* to) {
  for (int i = threadIdx.x; i < block_warps * histogram_bins;
       i += block_threads)
    bins[i] = 0;
  __syncthreads();
  with_format(entry.type, [&](auto format) {
    using chosen = decltype(format);
    const auto* data = static_cast<const typename chosen::stored*>(entry.data);
    const auto begin = range.first * entry.width + range.begin;
    const auto end = (range.last - 1) * entry.width + range.end;
#pragma unroll 4
    for (auto i = begin + threadIdx.x; i < end; i += block_threads)
      if (const auto bin = bin_of(chosen::widened(data[i])); bin >= 0)
        atomicAdd(bins + warp() * histogram_bins + bin, 1);
  });
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
  __shared__ statistics_total totals[block_warps];
  extern __shared__ int bins[];
  const auto index = find_entry(table, blockIdx.x);
  const auto& entry = table.entries[index];
  const auto range = range_of(entry, blockIdx.x - entry.first_piece);
  auto* row = table.rows + std::int64_t{entry.row} * table.columns;
  auto* parts = table.parts + entry.first_piece;
  auto part = take_piece(entry, range);
  if (table.columns == wide_statistics_columns)
    add_histogram(entry, range, bins, row + statistics_columns);
  if (threadIdx.x == 0) {
    if (entry.lanes == block_threads && entry.split == 1)
      part.instances.add(part.values);
    parts[blockIdx.x - entry.first_piece] = part;
  }
  if (!is_last_block(table.finished + index, entry.pieces()))
    return;
  const auto all = block_join(take_parts(entry, parts), totals, join_parts{});
  if (threadIdx.x == 0)
    write_row(entry, all, row);
}

}  // namespace statistics_kernels

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
