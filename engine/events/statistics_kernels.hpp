#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/events/value_counts.hpp"

namespace troupe {

/// Most bytes that a statistics kernel gets at once: it reads them several
/// times, from the L1 cache.
constexpr std::int64_t chunk_bytes = 16384;
constexpr std::int64_t chunk_floats = chunk_bytes / sizeof(float);

/// Statistics of a chunk, as in tensor_statistics.
struct chunk_statistics : value_counts {
  std::int64_t finite = 0;
  double max_abs = 0;
  double min_abs = 0;
  double mean = 0;
  double squares = 0;
};

/// The inner loops of statistics, compiled for one instruction set. All sets
/// give the same bits. `count` is at least 1; pointers need no alignment. While
/// computing a chunk, a kernel prefetches as many bytes from `next` on, which
/// need not be readable.
struct statistics_kernels {
  const char* instruction_set;
  chunk_statistics (*floats)(const float* values, std::int64_t count,
                             const void* next);
  chunk_statistics (*doubles)(const double* values, std::int64_t count,
                              const void* next);
  // Extremes, and counts of non-finite values; other results are unspecified.
  chunk_statistics (*float_extremes)(const float* values, std::int64_t count,
                                     const void* next);
  chunk_statistics (*double_extremes)(const double* values, std::int64_t count,
                                      const void* next);
  void (*widen_half)(const std::uint16_t* source, float* target,
                     std::int64_t count);
  void (*widen_bfloat16)(const std::uint16_t* source, float* target,
                         std::int64_t count);
};

/// Works on any machine: vectors of 16 bytes.
extern const statistics_kernels plain_kernels;

/// Kernels that this machine can run, the fastest last. Defined in x86/ or
/// portable/, as chosen by the build.
std::vector<const statistics_kernels*> usable_kernels();

}  // namespace troupe
