#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/device/load_accelerator.hpp"

namespace troupe {

/// Waits without using a core, except for the last moment.
inline void wait_for(std::chrono::nanoseconds time) {
  using steady = std::chrono::steady_clock;
  const auto until = steady::now() + time;
  std::this_thread::sleep_until(until - std::chrono::microseconds(150));
  while (steady::now() < until) {
  }
}

/// The quantile of the values at that share; 0 without values.
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

/// The first GPU, as a trainer's devices; none unless enabled. To be called
/// before any other use of LibTorch. Throws `error` (device) that says what is
/// missing.
inline std::vector<std::shared_ptr<accelerator>> one_gpu(bool enabled) {
  if (!enabled)
    return {};
  const auto& found = load_accelerators();
  if (!found)
    fail(error_code::device, "--cuda: {}", found.why_not);
  return {found.library->open(0)};
}

/// Runs a benchmark's main; returns 1, with a message, if it can't run.
template <class Work>
int run_benchmark(const Work& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& reason) {
    fmt::print(stderr, "error: {}\n", reason.what());
    return 1;
  }
}

}  // namespace troupe
