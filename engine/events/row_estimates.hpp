#pragma once

#include <cstdint>
#include <utility>

#include "troupe/base/fields.hpp"

namespace troupe {

/// An unbiased estimate of a number, or the number itself.
struct estimate {
  double value = 0;
  double variance = 0;  // of the value; 0: exact
  /// The root of the sum of v^2 / (n + 1) over the strata, where v is a
  /// stratum's part of the variance, estimated from n rows: tells how precise
  /// the variance is.
  double spread = 0;

  void operator+=(const estimate& other);
  /// The confidence interval of 95 %: Student's t with the degrees of freedom
  /// of F. E. Satterthwaite (1946).
  std::pair<double, double> interval() const;
  /// For a number that is positive, such as a variance or a count: the interval
  /// of its logarithm, which holds more often where rows differ much.
  std::pair<double, double> positive_interval() const;

  bool operator==(const estimate&) const = default;
};
TROUPE_FIELDS(estimate, value, variance, spread)
template <>
inline constexpr bool travels_as_row<estimate> = true;

estimate operator*(const estimate& subject, double factor);
estimate operator/(const estimate& subject, double divisor);

/// What a sample of a tensor's rows tells.
struct row_estimates {
  std::int64_t count = 0;  // elements of the tensor
  std::int64_t read = 0;   // elements of the sample
  double max_abs = 0;      // of those read; 0 if none is finite
  // Counts of the tensor's elements. Where none was read, 0 and no variance.
  estimate nans{}, infs{};
  // Sums over the tensor's instances, as in tensor_statistics; a tensor that
  // has none is one instance. Of the finite values.
  estimate mean{}, variance{};

  bool operator==(const row_estimates&) const = default;
};
TROUPE_FIELDS(row_estimates, count, read, max_abs, nans, infs, mean, variance)

/// Estimates of factor * x.
row_estimates scaled(const row_estimates& subject, double factor);

}  // namespace troupe
