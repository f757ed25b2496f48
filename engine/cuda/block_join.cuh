#pragma once

#include <cstring>

#include "troupe/engine/cuda/statistics_pieces.hpp"

// Joins the results of a warp's or a block's threads in a fixed order: equal
// bits from run to run. It also finds the entry that a block works on.
namespace troupe {

/// The value of the lane `offset` further on.
template <class Value>
__device__ Value from_lane_behind(const Value& value, int offset) {
  constexpr int words = sizeof(Value) / sizeof(int);
  static_assert(sizeof(Value) % sizeof(int) == 0);
  int mine[words];
  memcpy(mine, &value, sizeof value);
  for (int i = 0; i < words; ++i)
    mine[i] = __shfl_down_sync(0xffffffff, mine[i], offset);
  Value result;
  memcpy(&result, mine, sizeof result);
  return result;
}

/// Joins the values of the first `count` lanes, a power of two. All lanes must
/// take part; the first one gets the result.
template <class Value, class Join>
__device__ Value warp_join(Value value, Join join, int count = warp_lanes) {
  for (int offset = count / 2; offset > 0; offset /= 2)
    join(value, from_lane_behind(value, offset));
  return value;
}

/// Joins the first lanes' values of all warps; all threads of a block of
/// block_threads must take part. The first one gets the result. `shared` has
/// room for block_warps values.
template <class Value, class Join>
__device__ Value join_warps(Value value, Value* shared, Join join) {
  __syncthreads();
  if (threadIdx.x % warp_lanes == 0)
    shared[threadIdx.x / warp_lanes] = value;
  __syncthreads();
  return threadIdx.x < warp_lanes
           ? warp_join(shared[threadIdx.x % block_warps], join, block_warps)
           : value;
}

/// The same for the values of all threads.
template <class Value, class Join>
__device__ Value block_join(Value value, Value* shared, Join join) {
  return join_warps(warp_join(value, join), shared, join);
}

/// True in all threads of the last of `blocks` blocks to call this: it sees
/// what the other blocks' first threads wrote before. `counter` begins at 0.
inline __device__ bool is_last_block(unsigned* counter, std::int64_t blocks) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(counter, 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

/// The entry of a launch's table that the block of that number works on.
template <class Table>
__device__ int find_entry(const Table& table, int piece) {
  int low = 0, high = table.count - 1;
  while (low < high) {
    const auto middle = (low + high + 1) / 2;
    if (table.entries[middle].first_piece <= piece)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

}  // namespace troupe
