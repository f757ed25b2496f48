#include "troupe/engine/device/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace troupe {

namespace {

std::int64_t status_bytes(const std::string& key) {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(key))
      continue;
    std::int64_t kib = 0;
    std::istringstream{line.substr(key.size())} >> kib;
    return kib * 1024;
  }
  return 0;
}

}  // namespace

std::int64_t resident_bytes() {
  return status_bytes("VmRSS:");
}

std::int64_t peak_resident_bytes() {
  return status_bytes("VmHWM:");
}

std::int64_t physical_bytes() {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  return std::max<std::int64_t>(pages, 0) * ::sysconf(_SC_PAGESIZE);
}

std::int64_t usable_bytes(const cgroup_limits& limits) {
  return std::min(physical_bytes(),
                  limits.memory_bytes.value_or(physical_bytes()));
}

}  // namespace troupe
