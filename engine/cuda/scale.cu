#include "troupe/engine/cuda/find_entry.cuh"
#include "troupe/engine/cuda/flat_values.cuh"

namespace troupe {
namespace {

__device__ void scale(double& value, double factor) {
  value *= factor;
}
__device__ void scale(float& value, double factor) {
  value *= static_cast<float>(factor);
}
__device__ void scale(__half& value, double factor) {
  value = __float2half(__half2float(value) * static_cast<float>(factor));
}
__device__ void scale(__nv_bfloat16& value, double factor) {
  value =
    __float2bfloat16(__bfloat162float(value) * static_cast<float>(factor));
}

__global__ void __launch_bounds__(block_threads)
  scale_kernel(const __grid_constant__ flat_table table) {
  const auto& entry = table.entries[find_entry(table, blockIdx.x)];
  const auto factor = table.factor_is_double
                        ? *static_cast<const double*>(table.factor)
                        : *static_cast<const float*>(table.factor);
  const auto range = range_of(entry);
  visit_values(entry, [&](auto* data) {
#pragma unroll 8
    for (auto i = range.begin + threadIdx.x; i < range.end; i += block_threads)
      scale(data[i], factor);
  });
}

}  // namespace

cudaError_t launch_scale(const flat_table& table, std::int64_t pieces,
                         cudaStream_t stream) {
  scale_kernel<<<static_cast<unsigned>(pieces), block_threads, 0, stream>>>(
    table);
  return cudaGetLastError();
}

}  // namespace troupe
