#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace troupe::testing {

/// The resident memory of a process, by default this one.
inline std::size_t resident_kib(const std::string& process = "self") {
  std::ifstream status("/proc/" + process + "/statm");
  std::size_t all = 0, resident = 0;
  status >> all >> resident;
  return resident * 4;
}

}  // namespace troupe::testing
