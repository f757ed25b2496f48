#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

/// The smallest cycle of a graph in which node i waits for `waits_for[i]`,
/// or for nothing (`none`). Starts at its smallest node; empty if there is
/// no cycle.
std::vector<std::int32_t> smallest_cycle(
  const std::vector<std::int32_t>& waits_for);

}  // namespace troupe
