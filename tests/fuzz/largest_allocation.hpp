#pragma once

#include <cstddef>

namespace troupe::testing {

/// The size of the largest single `new` by any thread since this was set to 0.
std::size_t& largest_allocation();

}  // namespace troupe::testing
