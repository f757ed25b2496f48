#include "troupe/engine/cuda/launches.hpp"

namespace troupe {
inline namespace delay_kernels {

__device__ std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void delay_kernel(std::uint64_t duration) {
  const auto begin = nanoseconds();
  while (nanoseconds() - begin < duration)
    __nanosleep(1000);
}

}  // namespace delay_kernels

cudaError_t launch_delay(double seconds, cudaStream_t stream) {
  delay_kernel<<<1, 1, 0, stream>>>(static_cast<std::uint64_t>(seconds * 1e9));
  return cudaGetLastError();
}

}  // namespace troupe
