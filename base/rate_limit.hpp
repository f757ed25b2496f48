#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace troupe {

/// Lets so many things pass at once, and then one after each interval. One
/// thread at a time.
class rate_limit {
 public:
  using clock = std::chrono::steady_clock;

  rate_limit(std::int64_t at_once, clock::duration interval,
             clock::time_point start = clock::now())
    : most_(at_once), interval_(interval), last_(start) {}

  /// How many did not pass since the last one that did; none: nor does this.
  std::optional<std::int64_t> pass(clock::time_point now = clock::now()) {
    const auto passed = (now - last_) / interval_;
    last_ += passed * interval_;
    taken_ = std::max<std::int64_t>(0, taken_ - passed);
    if (taken_ >= most_) {
      ++suppressed_;
      return std::nullopt;
    }
    ++taken_;
    const auto suppressed = suppressed_;
    suppressed_ = 0;
    return suppressed;
  }
  std::int64_t suppressed() const { return suppressed_; }

 private:
  const std::int64_t most_;
  const clock::duration interval_;
  clock::time_point last_;
  std::int64_t taken_ = 0, suppressed_ = 0;
};

}  // namespace troupe
