#pragma once

#include "troupe/engine/events/statistics.hpp"

namespace troupe {

/// Counts the finite values among all into a log2_histogram.
class log2_counter {
 public:
  /// `denormals` may be false if there are none.
  void add(const float* values, std::int64_t count, bool denormals);
  void add(const double* values, std::int64_t count, bool denormals);

  log2_histogram histogram() const;

 private:
  // By fp32's exponent, in four copies: runs of equal values would otherwise
  // wait for each other. Exponents 0 (zeros and denormals) and 255 (not finite)
  // are unused.
  std::array<std::array<std::int64_t, 256>, 4> exponents_{};
  log2_histogram others_{};
};

}  // namespace troupe
