#pragma once

#include <cstdint>

namespace troupe {

/// Bytes of physical memory that this process holds now, and at its peak
/// (VmRSS and VmHWM of Linux); 0 where the system does not tell.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();
/// Bytes of memory that the machine has.
std::int64_t physical_bytes();

}  // namespace troupe
