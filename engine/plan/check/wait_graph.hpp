#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

/// That a node waits for another one; `length`, 0 or 1, is what that adds to a
/// cycle.
struct wait_edge {
  std::int32_t to = 0;
  std::int32_t length = 1;
};

/// The shortest cycle of a graph in which node i waits for all of
/// `waits_for[i]`, from its smallest node; empty if there is none. Of equally
/// short ones that whose smallest node is smallest. Takes time proportional to
/// nodes x the length of the result, if nodes wait for few.
std::vector<std::int32_t> smallest_cycle(
  const std::vector<std::vector<wait_edge>>& waits_for);

}  // namespace troupe
