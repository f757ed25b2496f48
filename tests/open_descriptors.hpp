#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace troupe::testing {

/// File descriptors that this process holds.
inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace troupe::testing
