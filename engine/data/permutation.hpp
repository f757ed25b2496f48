#pragma once

#include <cstdint>

namespace troupe {

/// A pseudo-random permutation of 0 .. size-1 that needs no memory: a
/// four-round Feistel network with cycle walking. The same seed gives the
/// same order everywhere.
class permutation {
 public:
  permutation(std::int64_t size, std::uint64_t seed);
  std::int64_t operator()(std::int64_t index) const;

 private:
  std::uint64_t size_;
  std::uint64_t seed_;
  unsigned half_bits_;
};

/// SplitMix64's finaliser: turns counters into well-mixed bits.
std::uint64_t mix_bits(std::uint64_t value);

}  // namespace troupe
