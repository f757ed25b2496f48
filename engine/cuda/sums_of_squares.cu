#include "troupe/engine/cuda/block_join.cuh"
#include "troupe/engine/cuda/find_entry.cuh"
#include "troupe/engine/cuda/flat_values.cuh"

namespace troupe {
namespace {

struct add {
  __device__ void operator()(double& to, double more) const { to += more; }
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
__device__ double squares_of(const flat_entry& entry) {
  const auto range = range_of(entry);
  double sum = 0;
  visit_values(entry, [&](const auto* data) {
#pragma unroll 8
    for (auto i = range.begin + threadIdx.x; i < range.end;
         i += block_threads) {
      const auto value = as_double(data[i]);
      sum += value * value;
    }
  });
  return sum;
}

__global__ void __launch_bounds__(block_threads)
  squares_kernel(const __grid_constant__ flat_table table) {
  __shared__ double shared[block_warps];
  const auto index = find_entry(table, blockIdx.x);
  const auto& entry = table.entries[index];
  auto* parts = table.parts + entry.first_piece;
  auto sum = block_join(squares_of(entry), shared, add{});
  if (threadIdx.x == 0)
    parts[blockIdx.x - entry.first_piece] = sum;
  const auto pieces = entry.pieces();
  if (!is_last_block(table.finished + index, pieces))
    return;
  sum = 0;
  for (std::int64_t i = threadIdx.x; i < pieces; i += block_threads)
    sum += parts[i];
  sum = block_join(sum, shared, add{});
  if (threadIdx.x == 0)
    table.sums[entry.row] = sum;
}

}  // namespace

cudaError_t launch_sums_of_squares(const flat_table& table, std::int64_t pieces,
                                   cudaStream_t stream) {
  squares_kernel<<<static_cast<unsigned>(pieces), block_threads, 0, stream>>>(
    table);
  return cudaGetLastError();
}

}  // namespace troupe
