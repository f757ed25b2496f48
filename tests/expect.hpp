#pragma once

#include <stdexcept>
#include <string>

namespace troupe::testing {

/// For what runs beside a test's main thread, where Catch2's macros may not be
/// used (assertion_threads.cpp): throws what does not hold.
inline void expect(bool holds, const std::string& what) {
  if (!holds)
    throw std::runtime_error("it does not hold that " + what);
}

}  // namespace troupe::testing
