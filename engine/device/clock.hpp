#pragma once

#include <chrono>
#include <cstdint>

namespace troupe {

/// Host time in nanoseconds on the monotonic clock, one clock for all ranks
/// of a process.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
           std::chrono::steady_clock::now().time_since_epoch())
    .count();
}

}  // namespace troupe
