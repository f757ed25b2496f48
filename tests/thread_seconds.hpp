#pragma once

#include <ctime>

namespace troupe::testing {

/// CPU time of the calling thread: bounds on it hold even if many programs
/// share the processor.
inline double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec)
         + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace troupe::testing
