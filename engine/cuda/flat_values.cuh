#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "troupe/engine/cuda/launches.hpp"

namespace troupe {

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

inline __device__ value_range range_of(const flat_entry& entry) {
  const auto begin =
    (std::int64_t{blockIdx.x} - entry.first_piece) * piece_values;
  return {begin, min(begin + piece_values, entry.count)};
}

}  // namespace troupe
