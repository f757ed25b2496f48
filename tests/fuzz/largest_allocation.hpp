#pragma once

#include <cstddef>

namespace troupe::testing {

/// Bytes of the largest single `new` since this was set to 0, of any thread.
std::size_t& largest_allocation();

}  // namespace troupe::testing
