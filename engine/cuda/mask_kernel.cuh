#pragma once

#include "troupe/engine/cuda/mask_task.hpp"

namespace troupe {
inline namespace mask_kernels {

/// Each thread makes one block of four numbers at a time.
__global__ void mask_kernel(mask_task task) {
  auto numbers = task.numbers;
  if (task.key)
    numbers.key = *task.key;
  const auto groups = (task.count + philox_group - 1) / philox_group;
  const auto step = std::int64_t{gridDim.x} * blockDim.x;
  for (auto b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       b < groups * philox_lanes; b += step) {
    const auto four = numbers.block(static_cast<std::uint64_t>(b));
    const std::uint32_t all[] = {four.x, four.y, four.z, four.w};
    const auto first = b / philox_lanes * philox_group + b % philox_lanes;
    for (int j = 0; j < 4; ++j)
      if (const auto i = first + j * philox_lanes; i < task.count)
        task.mask[i] = all[j] >= task.threshold;
  }
}

}  // namespace mask_kernels
}  // namespace troupe
