#pragma once

#include <cstdint>

#include "troupe/engine/membership/job_shape.hpp"

namespace troupe::simulated {

using membership::moment;

/// A mixture of the bits of numbers (splitmix64).
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b = 0) {
  auto x = a * 0x9e3779b97f4a7c15U + b + 0x632be59bd9b4e019U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// Random numbers that are the same everywhere.
class draws {
 public:
  explicit draws(std::uint64_t seed) : state_(mix(seed)) {}

  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15U); }
  /// least .. most.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    const auto values = static_cast<std::uint64_t>(most - least + 1);
    return least + static_cast<std::int64_t>((next() >> 11U) % values);
  }
  moment time(std::int64_t least_ms, std::int64_t most_ms) {
    return moment(between(least_ms * 1000, most_ms * 1000));
  }
  bool chance(std::int64_t one_in) { return between(1, one_in) == 1; }

 private:
  std::uint64_t state_;
};

}  // namespace troupe::simulated
