#include <algorithm>

#include "troupe/engine/cuda/launches.hpp"
#include "troupe/engine/cuda/mask_kernel.cuh"

namespace troupe {

cudaError_t launch_fill_mask(const mask_task& task, cudaStream_t stream) {
  if (task.count == 0)
    return cudaSuccess;
  constexpr std::int64_t threads = 256, most = 4096;
  const auto blocks =
    std::min((task.count + 4 * threads - 1) / (4 * threads), most);
  mask_kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(task);
  return cudaGetLastError();
}

}  // namespace troupe
