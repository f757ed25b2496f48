#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <barrier>
#include <cmath>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

// Runs kernels of CUDA on the host, to test the code that a GPU would run: each
// thread of a block is a thread of the system, and the blocks run one after the
// other. To be included before a kernel's file.

// NOLINTBEGIN: the names are CUDA's.
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define TROUPE_UNROLL

namespace troupe {

struct dim3 {
  constexpr dim3(unsigned columns = 1, unsigned rows = 1)
    : x(columns), y(rows) {}
  unsigned x, y;
};
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};

template <class Value>
void __stwb(Value* to, Value value) {
  *to = value;
}

inline thread_local dim3 threadIdx;
inline dim3 blockIdx, blockDim, gridDim;

/// What the threads of a block wait at and exchange.
struct host_block {
  explicit host_block(unsigned threads) : all(threads), values(threads) {
    for (unsigned warp = 0; warp < threads / 32; ++warp)
      warps.push_back(std::make_unique<std::barrier<>>(32));
  }
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<float> values;
};
inline host_block* current_block = nullptr;

inline void __syncthreads() {
  current_block->all.arrive_and_wait();
}

inline float __shfl_xor_sync(unsigned, float value, int lanes) {
  const auto own = threadIdx.y * blockDim.x + threadIdx.x;
  auto& warp = *current_block->warps[own / 32];
  auto& values = current_block->values;
  values[own] = value;
  warp.arrive_and_wait();
  const auto result = values[own ^ static_cast<unsigned>(lanes)];
  warp.arrive_and_wait();
  return result;
}
// NOLINTEND

inline std::uint16_t rounded_bfloat16(float value) {
  return c10::BFloat16(value).x;
}
inline std::uint16_t rounded_half(float value) {
  return c10::Half(value).x;
}

/// kernel<<<blocks, threads>>>(task); threads.x: a multiple of 32.
template <class Kernel, class Task>
void run_on_host(dim3 blocks, dim3 threads, Kernel kernel, const Task& task) {
  gridDim = blocks;
  blockDim = threads;
  for (blockIdx.y = 0; blockIdx.y < blocks.y; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < blocks.x; ++blockIdx.x) {
      host_block block(threads.x * threads.y);
      current_block = &block;
      std::vector<std::jthread> running;
      for (unsigned i = 0; i < threads.x * threads.y; ++i)
        running.emplace_back([&, i] {
          threadIdx = {i % threads.x, i / threads.x};
          kernel(task);
        });
    }
}

}  // namespace troupe
