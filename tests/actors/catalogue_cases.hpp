#pragma once

#include <vector>

#include "small_model.hpp"

namespace troupe::testing {

/// The schedules at P in 2 to 4 and m in P, 2P and 2P + 1, where that is legal,
/// with one and two replicas, in both orders.
std::vector<small_case> catalogue_cases();

}  // namespace troupe::testing
