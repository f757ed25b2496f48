#include "troupe/engine/events/row_estimates.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

/// The quantile 0.975 of Student's distribution (M. Abramowitz and I. A.
/// Stegun, 26.7.5), within 1 % from 3 degrees of freedom on.
double student_quantile(double freedom) {
  constexpr double z = 1.959963984540054, z2 = z * z;
  const auto n = std::max(freedom, 1.0);
  return z
         * (1 + (z2 + 1) / (4 * n) + ((5 * z2 + 16) * z2 + 3) / (96 * n * n)
            + (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * n * n * n));
}

/// From an estimate to the limits of its interval.
double reach_of(const estimate& subject) {
  if (subject.variance <= 0)
    return 0;
  const auto precision = subject.variance / subject.spread;
  return student_quantile(precision * precision - 2)
         * std::sqrt(subject.variance);
}

}  // namespace

void estimate::operator+=(const estimate& other) {
  value += other.value;
  variance += other.variance;
  spread = std::hypot(spread, other.spread);
}

std::pair<double, double> estimate::interval() const {
  const auto reach = reach_of(*this);
  return {value - reach, value + reach};
}

std::pair<double, double> estimate::positive_interval() const {
  const auto ratio = value > 0 ? std::exp(reach_of(*this) / value) : 1;
  return {value / ratio, value * ratio};
}

estimate operator*(const estimate& subject, double factor) {
  const auto squared = factor * factor;
  return {subject.value * factor, subject.variance * squared,
          subject.spread * squared};
}

estimate operator/(const estimate& subject, double divisor) {
  auto result = subject * (1 / divisor);
  result.value = subject.value / divisor;
  return result;
}

row_estimates scaled(const row_estimates& subject, double factor) {
  auto result = subject;
  result.max_abs *= std::abs(factor);
  result.mean = result.mean * factor;
  result.variance = result.variance * (factor * factor);
  return result;
}

}  // namespace troupe
