#pragma once

#include <chrono>
#include <thread>

namespace troupe {

/// Takes no core while it waits, but for the last moment.
inline void wait_for(std::chrono::nanoseconds time) {
  using steady = std::chrono::steady_clock;
  const auto until = steady::now() + time;
  std::this_thread::sleep_until(until - std::chrono::microseconds(150));
  while (steady::now() < until) {
  }
}

}  // namespace troupe
