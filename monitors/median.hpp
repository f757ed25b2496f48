#pragma once

#include <vector>

namespace troupe {

/// The middle one, or the mean of two; of at least one value.
double median_of(std::vector<double> values);

}  // namespace troupe
