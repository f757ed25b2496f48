#include "troupe/monitors/median.hpp"

#include <algorithm>

namespace troupe {

double median_of(std::vector<double> values) {
  const auto middle =
    values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace troupe
