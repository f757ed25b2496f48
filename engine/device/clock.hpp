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

/// Seconds since 1970, with millisecond precision: for records that people
/// compare with other logs.
inline double wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(
           std::chrono::duration_cast<std::chrono::milliseconds>(now).count())
         / 1000;
}

}  // namespace troupe
