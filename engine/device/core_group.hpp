#pragma once

#include <string>

#include "troupe/engine/device/cgroup_limits.hpp"

namespace troupe {

/// The cores that a process may use. Processes whose groups have equal names
/// share them; groups of different names are taken for different cores.
struct core_group {
  std::string name{};
  double cores = 1;  // of which so many at a time
};

/// This process's: those of its machine that its affinity mask and its control
/// groups allow.
core_group own_cores(const cgroup_limits& limits = read_cgroup_limits());

}  // namespace troupe
