#include <algorithm>

#include "troupe/engine/cuda/launches.hpp"

namespace troupe {
inline namespace fill_mask_kernels {

/// Each thread makes one block of four numbers. `key`: null, or that of the
/// numbers.
__global__ void mask_kernel(std::uint8_t* mask, std::int64_t count,
                            philox_stream numbers, const philox_key* key,
                            std::uint32_t threshold) {
  if (key)
    numbers.key = *key;
  const auto blocks = (count + philox_group - 1) / philox_group * philox_lanes;
  const auto step = std::int64_t{gridDim.x} * blockDim.x;
  for (auto b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; b < blocks;
       b += step) {
    const auto four = numbers.block(static_cast<std::uint64_t>(b));
    const std::uint32_t all[] = {four.x, four.y, four.z, four.w};
    const auto first = b / philox_lanes * philox_group + b % philox_lanes;
    for (int j = 0; j < 4; ++j)
      if (const auto i = first + j * philox_lanes; i < count)
        mask[i] = all[j] >= threshold;
  }
}

}  // namespace fill_mask_kernels

cudaError_t launch_fill_mask(std::uint8_t* mask, std::int64_t count,
                             const philox_stream& numbers,
                             const philox_key* key, std::uint32_t threshold,
                             cudaStream_t stream) {
  if (count == 0)
    return cudaSuccess;
  constexpr std::int64_t threads = 256, most = 4096;
  const auto blocks = std::min((count + 4 * threads - 1) / (4 * threads), most);
  mask_kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
    mask, count, numbers, key, threshold);
  return cudaGetLastError();
}

}  // namespace troupe
