#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

// Which row of the data comes next: of mixed sources, and shuffled.

/// Which source gives a row of the data, and the number of the row there. Of
/// every `block` rows each source gives its share by weight, rounded, spread
/// evenly; and each gives its own rows in ascending order, so that none is
/// lost or comes twice, whatever position a run goes on from.
class row_mixture {
 public:
  static constexpr std::int64_t block = 1024;

  /// Throws `invalid_argument` for no weight, one that is not above 0, and one
  /// so small that its source would give no row of a block.
  explicit row_mixture(const std::vector<double>& weights);

  struct place {
    std::size_t source = 0;
    std::int64_t row = 0;
  };
  place of(std::int64_t row) const;

 private:
  std::vector<place> places_;         // of the rows of the first block
  std::vector<std::int64_t> shares_;  // rows of a block by source
};

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
