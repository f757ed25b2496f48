#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

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

}  // namespace troupe
