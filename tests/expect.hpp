#pragma once

#include <stdexcept>
#include <string>

namespace troupe::testing {

/// Throws unless `holds`: for threads other than a test's main thread, where
/// Catch2's macros must not be used (assertion_threads.cpp).
inline void expect(bool holds, const std::string& what) {
  if (!holds)
    throw std::runtime_error("it does not hold that " + what);
}

}  // namespace troupe::testing
