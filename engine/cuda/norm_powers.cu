#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "troupe/engine/cuda/block_join.cuh"
#include "troupe/engine/cuda/launches.hpp"

namespace troupe {
inline namespace norm_powers_kernels {

/// Calls `visit` with a typed pointer to an entry's values.
template <class Visit>
__device__ void visit_values(const flat_entry& entry, Visit visit) {
  switch (entry.type) {
    case device_type::fp64:
      return visit(static_cast<double*>(entry.data));
    case device_type::fp16:
      return visit(static_cast<__half*>(entry.data));
    case device_type::bf16:
      return visit(static_cast<__nv_bfloat16*>(entry.data));
    default:
      return visit(static_cast<float*>(entry.data));
  }
}

/// The values of a tensor that a block handles: [begin, end).
struct value_range {
  std::int64_t begin;
  std::int64_t end;
};

__device__ value_range range_of(const flat_entry& entry) {
  const auto begin =
    (std::int64_t{blockIdx.x} - entry.first_piece) * piece_values;
  return {begin, min(begin + piece_values, entry.count)};
}

template <norm_type Type>
struct join {
  __device__ void operator()(double& to, double more) const {
    to = norm_power<Type>::joined(to, more);
  }
};

__device__ double as_double(double value) {
  return value;
}
__device__ double as_double(float value) {
  return value;
}
__device__ double as_double(__half value) {
  return __half2float(value);
}
__device__ double as_double(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

/// A thread's share of a piece.
template <norm_type Type>
__device__ double powers_of(const flat_entry& entry) {
  const auto range = range_of(entry);
  using power = norm_power<Type>;
  double all = 0;
  visit_values(entry, [&](const auto* data) {
#pragma unroll 8
    for (auto i = range.begin + threadIdx.x; i < range.end; i += block_threads)
      all = power::joined(all, power::of(as_double(data[i])));
  });
  return all;
}

template <norm_type Type>
__global__ void __launch_bounds__(block_threads)
  powers_kernel(const __grid_constant__ flat_table table) {
  __shared__ double shared[block_warps];
  const auto index = find_entry(table, blockIdx.x);
  const auto& entry = table.entries[index];
  auto* parts = table.parts + entry.first_piece;
  auto all = block_join(powers_of<Type>(entry), shared, join<Type>{});
  if (threadIdx.x == 0)
    parts[blockIdx.x - entry.first_piece] = all;
  const auto pieces = entry.pieces();
  if (!is_last_block(table.finished + index, pieces))
    return;
  all = 0;
  for (std::int64_t i = threadIdx.x; i < pieces; i += block_threads)
    all = norm_power<Type>::joined(all, parts[i]);
  all = block_join(all, shared, join<Type>{});
  if (threadIdx.x == 0)
    table.sums[entry.row] = all;
}

}  // namespace norm_powers_kernels

cudaError_t launch_norm_powers(const flat_table& table, std::int64_t pieces,
                               norm_type type, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(pieces);
  switch (type) {
    case norm_type::infinity:
      powers_kernel<norm_type::infinity>
        <<<blocks, block_threads, 0, stream>>>(table);
      break;
    case norm_type::one:
      powers_kernel<norm_type::one>
        <<<blocks, block_threads, 0, stream>>>(table);
      break;
    case norm_type::two:
      powers_kernel<norm_type::two>
        <<<blocks, block_threads, 0, stream>>>(table);
      break;
    case norm_type::three:
      powers_kernel<norm_type::three>
        <<<blocks, block_threads, 0, stream>>>(table);
      break;
  }
  return cudaGetLastError();
}

}  // namespace troupe
