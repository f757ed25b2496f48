#pragma once

#include <chrono>

namespace troupe {

/// A moment after which nothing is waited for.
class deadline {
 public:
  using clock = std::chrono::steady_clock;

  /// So many seconds from now; infinity: never.
  explicit deadline(double seconds);
  /// For `poll`: at least 0; -1: without end.
  int milliseconds() const;
  clock::time_point when() const { return when_; }

 private:
  clock::time_point when_ = clock::time_point::max();
};

/// A time span, of at most 10^9 s; for less than 0 and for no number: none.
std::chrono::milliseconds milliseconds_of(double seconds);

}  // namespace troupe
