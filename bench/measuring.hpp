#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {

/// Takes no core while it waits, but for the last moment.
inline void wait_for(std::chrono::nanoseconds time) {
  using steady = std::chrono::steady_clock;
  const auto until = steady::now() + time;
  std::this_thread::sleep_until(until - std::chrono::microseconds(150));
  while (steady::now() < until) {
  }
}

/// The value with that share of the others below it; 0 of none.
inline double quantile(std::vector<double> values, double share) {
  if (values.empty())
    return 0;
  std::ranges::sort(values);
  const auto index = share * static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(index + 0.5)];
}

inline double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

}  // namespace troupe
