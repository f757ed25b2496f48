#pragma once

#include <algorithm>
#include <deque>
#include <iterator>

namespace troupe {

/// The value with a quarter of them below it. There is at least one value.
inline double lower_quartile(std::deque<double> values) {
  const auto quarter = values.begin() + std::ssize(values) / 4;
  std::ranges::nth_element(values, quarter);
  return *quarter;
}

/// The median; of an even number of values the upper one of the two in the
/// middle. There is at least one value.
inline double median(std::deque<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace troupe
