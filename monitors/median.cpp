#include "troupe/monitors/median.hpp"

#include <algorithm>

namespace troupe {

double median_of(std::vector<double> values) {
  const auto middle =
    values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1)
    return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace troupe
