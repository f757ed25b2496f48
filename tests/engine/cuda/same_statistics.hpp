#pragma once

#include "troupe/engine/events/statistics.hpp"

namespace troupe {

/// Checks (with Catch2) that two computations agree: counts and extremes
/// exactly, moments within the rounding of fp32 sums, relative to the values'
/// own spread.
void check_same(const tensor_statistics& actual,
                const tensor_statistics& expected);

}  // namespace troupe
