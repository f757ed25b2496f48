#pragma once

#include <cstdint>

#include "troupe/engine/device/cgroup_limits.hpp"

namespace troupe {

/// Bytes of physical memory that this process holds now, and at its peak (VmRSS
/// and VmHWM on Linux); 0 if the system does not report them.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();
/// Bytes of physical memory in the machine.
std::int64_t physical_bytes();
/// Those that this process can use: the machine's, or fewer by the limit of its
/// control group, beyond which the system kills it.
std::int64_t usable_bytes(const cgroup_limits& limits = read_cgroup_limits());

}  // namespace troupe
