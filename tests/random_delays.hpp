#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <random>

namespace troupe::testing {

/// A hook for any thread that, in every fourth call, takes up to 300 us. It
/// spins meanwhile: on a busy machine, a thread that yields its core gets it
/// back late.
inline std::function<void()> random_delays(std::uint32_t seed) {
  struct source {
    std::mutex mutex;
    std::mt19937 random;
  };
  auto from = std::make_shared<source>();
  from->random.seed(seed);
  return [from] {
    using clock = std::chrono::steady_clock;
    std::unique_lock lock(from->mutex);
    const auto us = from->random() % 4 == 0 ? from->random() % 300 : 0;
    lock.unlock();
    const auto until = clock::now() + std::chrono::microseconds(us);
    while (clock::now() < until) {
    }
  };
}

}  // namespace troupe::testing
