#pragma once

#include <cstdint>

namespace troupe {

/// Bytes of physical memory that this process holds now, and at its peak (VmRSS
/// and VmHWM on Linux); 0 if the system does not report them.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();
/// Bytes of physical memory in the machine.
std::int64_t physical_bytes();

}  // namespace troupe
