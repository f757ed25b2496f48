#pragma once

#include <vector>

#include "small_model.hpp"

namespace troupe::testing {

/// The built-in schedules with P in 2 to 4 and m in P, 2P and 2P + 1, where
/// legal, with one and two replicas, in both orders.
std::vector<small_case> catalogue_cases();

}  // namespace troupe::testing
