#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "troupe/engine/cuda/launches.hpp"

namespace troupe {
inline namespace row_kernels {

__device__ std::uint16_t rounded_bfloat16(float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
__device__ std::uint16_t rounded_half(float value) {
  return __half_as_ushort(__float2half_rn(value));
}

}  // namespace row_kernels
}  // namespace troupe

#define TROUPE_UNROLL _Pragma("unroll")
#include "troupe/engine/cuda/layer_kernels.cuh"
#include "troupe/engine/cuda/loss_kernels.cuh"

namespace troupe {
inline namespace row_kernels {

/// Calls `launch` with the number of chunks as a constant.
template <class Launch>
void with_chunks(int chunks, Launch launch) {
  if (chunks == 1)
    launch(std::integral_constant<int, 1>());
  else
    launch(std::integral_constant<int, 2>());
}

dim3 threads_of(const norm_cut& cut) {
  return dim3(static_cast<unsigned>(cut.threads),
              static_cast<unsigned>(cut.teams));
}

}  // namespace row_kernels

cudaError_t launch_norm(const norm_task& task, cudaStream_t stream) {
  const auto cut = cut_norm_row(task.width);
  const auto needed = (task.rows + cut.teams - 1) / cut.teams;
  const auto blocks = static_cast<unsigned>(smaller(needed, 1 << 16));
  with_chunks(cut.chunks, [&](auto chunks) {
    norm_kernel<decltype(chunks)::value>
      <<<blocks, threads_of(cut), 0, stream>>>(task);
  });
  return cudaGetLastError();
}

cudaError_t launch_norm_backward(const norm_backward_task& task,
                                 cudaStream_t stream) {
  const auto cut = cut_norm_row(task.width);
  const auto blocks = static_cast<unsigned>(norm_blocks(task.rows, task.width));
  with_chunks(cut.chunks, [&](auto chunks) {
    norm_backward_kernel<decltype(chunks)::value>
      <<<blocks, threads_of(cut), 0, stream>>>(task);
  });
  return cudaGetLastError();
}

cudaError_t launch_column_sums(const column_sums_task& task,
                               cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(task.tiles()),
                    static_cast<unsigned>(task.parts()));
  column_sums_kernel<<<blocks, block_threads, 0, stream>>>(task);
  return cudaGetLastError();
}

cudaError_t launch_gated(const gated_task& task, cudaStream_t stream) {
  const auto needed = (task.count / 4 + block_threads - 1) / block_threads;
  const auto blocks = static_cast<unsigned>(smaller(needed, 1 << 16));
  if (task.gradient.data)
    gated_backward_kernel<<<blocks, block_threads, 0, stream>>>(task);
  else
    gated_kernel<<<blocks, block_threads, 0, stream>>>(task);
  return cudaGetLastError();
}

cudaError_t launch_rotate(const rotate_task& task, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(task.positions),
                    static_cast<unsigned>(smaller(task.rows, 65535)));
  const auto warps = (task.items() + warp_lanes - 1) / warp_lanes;
  const auto threads = warp_lanes * smaller(warps, block_warps);
  rotate_kernel<<<blocks, static_cast<unsigned>(threads), 0, stream>>>(task);
  return cudaGetLastError();
}

cudaError_t launch_cross_entropy(const cross_entropy_task& task,
                                 cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(smaller(task.rows, 1 << 16));
  if (task.scale)
    loss_gradient_kernel<<<blocks, block_threads, 0, stream>>>(task);
  else
    loss_kernel<<<blocks, block_threads, 0, stream>>>(task);
  return cudaGetLastError();
}

}  // namespace troupe
